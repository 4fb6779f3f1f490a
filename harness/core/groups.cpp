#include "harness/core/groups.h"

#include "harness/core/text.h"

#include <algorithm>

namespace lockstep {

namespace {

bool alike(const CaseGroup& a, const CaseGroup& b) {
  return a.verdict == b.verdict && a.reason == b.reason && a.world == b.world &&
         a.labels == b.labels && a.signature == b.signature;
}

}  // namespace

void add(std::vector<CaseGroup>& groups, CaseGroup cases) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const CaseGroup& group) { return alike(group, cases); });
  if (found == groups.end()) {
    groups.push_back(std::move(cases));
  } else {
    const int first = found->numbers.first();
    found->numbers.add(cases.numbers);
    if (found->numbers.first() == first) return;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const CaseGroup& a, const CaseGroup& b) {
    return a.numbers.first() < b.numbers.first();
  });
}

void cut_after(std::vector<CaseGroup>& groups, int number) {
  for (auto& group : groups) group.numbers.cut_after(number);
  std::erase_if(groups, [](const CaseGroup& group) { return group.numbers.empty(); });
}

void count_groups(Result& result) {
  for (const auto& group : result.groups) {
    const auto cases = group.numbers.count();
    if (group.verdict == Verdict::Kind::refused) {
      result.refused[group.reason] += cases;
      continue;
    }
    result.judged += cases;
    for (const auto& label : group.labels) result.labels[label] += cases;
    if (!group.signature.empty()) result.signatures[group.signature] += cases;
    result.world_min =
        result.world_min == 0 ? group.world : std::min(result.world_min, group.world);
    result.world_max = std::max(result.world_max, group.world);
  }
}

std::vector<Result> by_signature(const Result& result) {
  std::vector<Result> all{result};
  all.front().others.clear();
  for (const auto& [kind, worst, failure] : result.others) {
    all.push_back(all.front());
    all.back().kind = kind;
    all.back().worst = worst;
    all.back().failure = failure;
  }
  return all;
}

bool comes_before(const Result::Found& a, const Result::Found& b) {
  if (is_failure(a.kind) != is_failure(b.kind)) return is_failure(a.kind);
  return a.failure.number < b.failure.number;
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
