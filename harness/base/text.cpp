#include "harness/base/text.h"

#include <algorithm>
#include <charconv>

namespace lockstep {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string listed(const std::vector<std::string>& names, size_t most) {
  if (names.size() <= most) return joined(names, ", ");
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(most);
  return joined({names.begin(), end}, ", ") + " and " +
         with_commas(static_cast<int64_t>(names.size() - most)) + " more";
}

std::string listed(const std::vector<int64_t>& numbers, size_t most) {
  std::vector<std::string> texts;
  for (const auto number : numbers) texts.push_back(std::to_string(number));
  return listed(texts, most);
}

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  const int first = number < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::optional<int64_t> parsed_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

namespace {

// Damerau's distance with adjacent swaps: the number of typing mistakes between two words.
size_t typing_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const size_t same = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + same});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// 0 for a part of a name. More than `most` where the lengths alone imply it: each additional letter
// is a mistake, and comparing a word of megabytes would take gigabytes.
size_t distance_up_to(size_t most, const std::string& word, const std::string& name) {
  if (word.size() >= 3 && name.find(word) != std::string::npos) return 0;
  const size_t least = std::max(word.size(), name.size()) - std::min(word.size(), name.size());
  return least > most ? least : typing_distance(word, name);
}

}  // namespace

std::vector<std::string> near_names(const std::string& word,
                                    const std::vector<std::string>& known) {
  std::vector<std::pair<size_t, std::string>> near;
  const size_t most = std::max<size_t>(2, word.size() / 3);
  for (const auto& name : known) {
    const size_t distance = distance_up_to(most, word, name);
    if (distance <= most) near.emplace_back(distance, name);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [distance, name] : near)
    if (names.size() < 3) names.push_back(name);
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const auto near = near_names(word, known);
  return near.empty() ? "" : " (did you mean '" + joined(near, "' or '") + "'?)";
}

namespace {

constexpr size_t kExcerptBytesMost = 240, kExcerptHead = 150, kExcerptTail = 50;

// The first byte of a character, at or before `at`.
size_t beginning(const std::string& text, size_t at) {
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

std::string excerpt(const std::string& text) {
  if (text.size() <= kExcerptBytesMost) return text;
  return text.substr(0, beginning(text, kExcerptHead)) + " ... " +
         text.substr(beginning(text, text.size() - kExcerptTail)) + " (" +
         with_commas(static_cast<int64_t>(text.size())) + " bytes)";
}

std::string hash_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < 16; ++i) text[15 - i] = kDigits[(hash >> (4 * i)) & 15];
  return text;
}

}  // namespace lockstep
