#include "harness/core/groups.h"

#include "harness/core/text.h"

#include <algorithm>

namespace lockstep {

namespace {

bool alike(const CaseGroup& a, const CaseGroup& b) {
  return a.verdict == b.verdict && a.reason == b.reason && a.world == b.world &&
         a.labels == b.labels;
}

// "7" or "9-30".
std::optional<std::pair<int64_t, int64_t>> range_of(const std::string& text) {
  const auto ends = split(text, '-');
  if (ends.size() > 2) return {};
  const auto first = parsed_int(ends.front()), last = parsed_int(ends.back());
  if (!first || !last || (ends.size() == 2 && *first >= *last)) return {};
  return std::pair{*first, *last};
}

}  // namespace

void add(std::vector<CaseGroup>& groups, CaseGroup cases) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const CaseGroup& group) { return alike(group, cases); });
  if (found == groups.end()) {
    groups.push_back(std::move(cases));
  } else {
    auto& numbers = found->numbers;
    const int first = numbers.front();
    const auto middle = numbers.insert(numbers.end(), cases.numbers.begin(), cases.numbers.end());
    std::inplace_merge(numbers.begin(), middle, numbers.end());
    if (numbers.front() == first) return;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const CaseGroup& a, const CaseGroup& b) {
    return a.numbers.front() < b.numbers.front();
  });
}

void cut_after(std::vector<CaseGroup>& groups, int number) {
  for (auto& group : groups) std::erase_if(group.numbers, [&](int one) { return one > number; });
  std::erase_if(groups, [](const CaseGroup& group) { return group.numbers.empty(); });
}

void count_groups(Result& result) {
  for (const auto& group : result.groups) {
    const auto cases = static_cast<int64_t>(group.numbers.size());
    if (group.verdict == Verdict::Kind::refused) {
      result.refused[group.reason] += cases;
      continue;
    }
    result.judged += cases;
    for (const auto& label : group.labels) result.labels[label] += cases;
    result.world_min =
        result.world_min == 0 ? group.world : std::min(result.world_min, group.world);
    result.world_max = std::max(result.world_max, group.world);
  }
}

std::string claimed(const std::string& exactness, const Result& result) {
  static const std::string kReal = " · real: ";
  const auto at = exactness.find(kReal);
  const auto real = result.labels.find("values real");
  const int64_t count = real == result.labels.end() ? 0 : real->second;
  if (at == std::string::npos || result.judged == 0) return exactness;
  if (count == 0) return exactness.substr(0, at);
  return count == result.judged ? exactness.substr(at + kReal.size()) : exactness;
}

std::string numbers_text(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    parts.push_back(std::to_string(numbers[begin]) +
                    (end - begin == 1 ? "" : "-" + std::to_string(numbers[end - 1])));
  }
  return joined(parts, ",");
}

std::optional<std::vector<int>> numbers_of(const std::string& text, int64_t most) {
  std::vector<int> numbers;
  for (const auto& part : split(text, ',')) {
    const auto range = range_of(part);
    const int64_t least = numbers.empty() ? 1 : numbers.back() + 1;
    if (!range || range->first < least || range->second > most) return {};
    for (auto number = range->first; number <= range->second; ++number)
      numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

std::string shard_text(const RunShard& shard) {
  return std::to_string(shard.number) + "/" + std::to_string(shard.of);
}

std::optional<RunShard> shard_of(const std::string& text) {
  const auto parts = split(text, '/');
  if (parts.size() != 2) return {};
  const auto number = parsed_int(parts[0]), of = parsed_int(parts[1]);
  if (!number || !of || *number < 1 || *of < *number || *of > kShardsMost) return {};
  return RunShard{static_cast<int>(*number), static_cast<int>(*of)};
}

}  // namespace lockstep
