#include "ddp/rendezvous/host_list.h"

#include "ddp/errors.h"

#include <charconv>
#include <optional>

namespace lockstep {

namespace {

// Larger than any existing machine, so that a typing error does not fill the memory.
constexpr int kMost = 1'000'000;

std::optional<int> number_of(const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < 0) return std::nullopt;
  return number;
}

// Splits at commas outside brackets. Nothing if a part is empty or brackets do not match.
std::optional<std::vector<std::string>> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char letter : text) {
    if (letter == '[') ++depth;
    if (letter == ']') --depth;
    if (depth < 0 || depth > 1) return std::nullopt;
    if (letter == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  if (depth != 0) return std::nullopt;
  for (const std::string& part : parts)
    if (part.empty()) return std::nullopt;
  return parts;
}

// "03-05" as 03, 04, 05; a number alone as itself.
bool add_range(const std::string& range, std::vector<std::string>& numbers) {
  const std::size_t dash = range.find('-');
  const std::string low = range.substr(0, dash);
  const std::string high = dash == std::string::npos ? low : range.substr(dash + 1);
  const auto first = number_of(low), last = number_of(high);
  if (!first || !last || *last < *first || *last - *first >= kMost) return false;
  for (int number = *first; number <= *last; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return true;
}

bool add_hosts(const std::string& done, const std::string& rest, std::vector<std::string>& hosts) {
  const std::size_t open = rest.find('[');
  if (open == std::string::npos) {
    hosts.push_back(done + rest);
    return hosts.size() <= static_cast<std::size_t>(kMost);
  }
  const std::size_t close = rest.find(']', open);
  const auto ranges = parts_of(rest.substr(open + 1, close - open - 1));
  if (!ranges) return false;
  std::vector<std::string> numbers;
  for (const std::string& range : *ranges)
    if (!add_range(range, numbers)) return false;
  for (const std::string& number : numbers)
    if (!add_hosts(done + rest.substr(0, open) + number, rest.substr(close + 1), hosts))
      return false;
  return true;
}

}  // namespace

std::vector<std::string> hosts_of(const std::string& host_list) {
  std::vector<std::string> hosts;
  const auto parts = parts_of(host_list);
  bool is_whole = parts.has_value();
  if (is_whole)
    for (const std::string& part : *parts) is_whole = is_whole && add_hosts("", part, hosts);
  if (is_whole) return hosts;
  throw UsageError("'" + host_list + "' is no list of hosts such as a1,node[03-05,9]");
}

std::vector<int> tasks_of_hosts(const std::string& text) {
  std::vector<int> tasks;
  bool is_whole = true;
  for (std::size_t start = 0; is_whole && start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    const std::size_t open = part.find("(x");
    const bool repeats = open != std::string::npos;
    const auto count = number_of(part.substr(0, open));
    const auto times = !repeats ? std::optional<int>(1)
                       : part.back() == ')'
                           ? number_of(part.substr(open + 2, part.size() - open - 3))
                           : std::nullopt;
    is_whole = count && times && *times > 0 && *times <= kMost;
    if (is_whole) tasks.insert(tasks.end(), static_cast<std::size_t>(*times), *count);
    start = end + 1;
  }
  if (is_whole) return tasks;
  throw UsageError("'" + text + "' is no list of tasks on hosts such as 4(x2),1");
}

}  // namespace lockstep
