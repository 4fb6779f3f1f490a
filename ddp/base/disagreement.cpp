#include "ddp/base/disagreement.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace lockstep {

namespace {

// Text as "length:bytes", so that values may hold anything.
void put(std::string& out, const std::string& text) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
}

std::string take(const std::string& text, std::size_t& at) {
  const std::size_t colon = text.find(':', at);
  if (colon == std::string::npos || colon == at || colon - at > 18 ||
      text.find_first_not_of("0123456789", at) != colon) {
    throw std::invalid_argument("a description's length is missing at byte " + std::to_string(at));
  }
  const std::size_t size = std::stoull(text.substr(at, colon - at));
  if (size > text.size() - colon - 1) {
    throw std::invalid_argument("a description is cut off at byte " + std::to_string(colon));
  }
  at = colon + 1 + size;
  return text.substr(colon + 1, size);
}

// The ranks that have the same value.
struct Camp {
  std::string value;
  std::vector<std::size_t> ranks;
};

std::vector<Camp> camps_of(const std::vector<std::size_t>& ranks,
                           const std::vector<std::string>& values) {
  std::vector<Camp> camps;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto known = std::find_if(camps.begin(), camps.end(),
                                    [&](const Camp& camp) { return camp.value == values[i]; });
    if (known == camps.end()) {
      camps.push_back({values[i], {ranks[i]}});
    } else {
      known->ranks.push_back(ranks[i]);
    }
  }
  return camps;
}

std::string verb(const Camp& camp, const char* one, const char* many) {
  return camp.ranks.size() == 1 ? one : many;
}

std::optional<std::string> find_validation_error(const std::vector<std::size_t>& ranks,
                                                 const std::vector<RankDescription>& descriptions) {
  std::vector<std::string> validation_errors;
  for (const RankDescription& description : descriptions) {
    validation_errors.push_back(description.validation_error.value_or(""));
  }
  std::string sentence;
  for (const Camp& camp : camps_of(ranks, validation_errors)) {
    if (camp.value.empty()) continue;
    if (!sentence.empty()) sentence += "; ";
    sentence += name_ranks(camp.ranks) + " of " + std::to_string(descriptions.size()) +
                " cannot take part: " + camp.value;
  }
  if (sentence.empty()) return std::nullopt;
  return sentence;
}

std::string describe(const std::string& subject, const std::vector<Camp>& camps) {
  std::string sentence = "ranks disagree on " + subject + ": ";
  for (std::size_t i = 0; i < camps.size(); ++i) {
    if (i > 0) sentence += "; ";
    sentence += name_ranks(camps[i].ranks) + verb(camps[i], " has ", " have ") + camps[i].value;
  }
  return sentence;
}

}  // namespace

std::string pack(const std::vector<std::string>& texts) {
  std::string packed;
  for (const std::string& text : texts) put(packed, text);
  return packed;
}

std::vector<std::string> unpack(const std::string& packed) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < packed.size();) texts.push_back(take(packed, at));
  return texts;
}

std::string encode(const RankDescription& description) {
  std::vector<std::string> texts = {description.validation_error ? "1" : "0",
                                    description.validation_error.value_or("")};
  for (const Property& property : description.properties) {
    texts.push_back(property.subject);
    texts.push_back(property.value);
    texts.push_back(property.because);
  }
  return pack(texts);
}

RankDescription decode(const std::string& text) {
  RankDescription description;
  std::size_t at = 0;
  const bool has_validation_error = take(text, at) == "1";
  std::string validation_error = take(text, at);
  if (has_validation_error) description.validation_error = std::move(validation_error);
  while (at < text.size()) {
    std::string subject = take(text, at);
    std::string value = take(text, at);
    std::string because = take(text, at);
    description.properties.push_back({std::move(subject), std::move(value), std::move(because)});
  }
  return description;
}

std::uint64_t fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3U;
  }
  return hash;
}

std::string name_ranks(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == first + 1) last = first;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[first]);
    if (last > first) text += "-" + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text.empty() ? "none" : text;
}

std::optional<std::string> find_disagreement(const std::vector<RankDescription>& descriptions) {
  std::vector<std::size_t> ranks(descriptions.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  return find_disagreement(ranks, descriptions);
}

std::optional<std::string> find_disagreement(const std::vector<std::size_t>& ranks,
                                             const std::vector<RankDescription>& descriptions) {
  if (auto validation_error = find_validation_error(ranks, descriptions)) return validation_error;
  std::size_t longest = 0;
  for (const RankDescription& each : descriptions)
    longest = std::max(longest, each.properties.size());
  for (std::size_t i = 0; i < longest; ++i) {
    std::vector<std::string> subjects;
    std::vector<std::string> values, explained;
    for (const RankDescription& each : descriptions) {
      const bool present = i < each.properties.size();
      subjects.push_back(present ? each.properties[i].subject : "nothing");
      values.push_back(present ? each.properties[i].value : "nothing");
      const std::string because = present ? each.properties[i].because : "";
      explained.push_back(values.back() + (because.empty() ? "" : " (" + because + ")"));
    }
    const std::vector<Camp> by_subject = camps_of(ranks, subjects);
    if (by_subject.size() > 1) return describe("what comes next in their list", by_subject);
    if (camps_of(ranks, values).size() > 1)
      return describe(subjects.front(), camps_of(ranks, explained));
  }
  return std::nullopt;
}

std::string absence(const std::vector<int>& absent, const std::vector<int>& came) {
  return "these ranks did not come: " + listed(absent) + " (these did: " + listed(came) + ")";
}

std::string exact_text(double value) {
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}

}  // namespace lockstep
