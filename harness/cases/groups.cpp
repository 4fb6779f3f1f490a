#include "harness/cases/groups.h"

#include "harness/base/text.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

bool alike(const CaseGroup& a, const CaseGroup& b) {
  return a.verdict == b.verdict && a.reason == b.reason && a.world == b.world &&
         a.labels == b.labels && a.signature == b.signature;
}

// The probability of at most `count` of `drawn` cases, fewer than all, where each is one with the
// probability `share`, above 0.
double chance_of_so_few(int64_t count, int64_t drawn, double share) {
  const auto n = static_cast<double>(drawn);
  double sum = 0;
  for (int64_t i = 0; i <= count; ++i) {
    const auto k = static_cast<double>(i);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                    k * std::log(share) + (n - k) * std::log1p(-share));
  }
  return sum;
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
    for (const auto& label : group.labels) result.labels[label] += cases;
    if (group.verdict == Verdict::Kind::refused) {
      result.refused[group.reason] += cases;
      continue;
    }
    result.judged += cases;
    if (!group.signature.empty()) result.signatures[group.signature] += cases;
    result.world_min =
        result.world_min == 0 ? group.world : std::min(result.world_min, group.world);
    result.world_max = std::max(result.world_max, group.world);
  }
}

void rename_signature(Result& result, const std::string& from, const std::string& to) {
  if (from == to) return;
  auto cases = result.signatures.extract(from);
  if (cases.empty()) return;
  result.signatures[to] += cases.mapped();
  std::vector<CaseGroup> groups;
  for (auto& group : result.groups) {
    if (group.signature == from) group.signature = to;
    add(groups, std::move(group));
  }
  result.groups = std::move(groups);
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

int64_t count_of(const std::string& label, const Result& result) {
  const auto found = result.labels.find(label);
  return found == result.labels.end() ? 0 : found->second;
}

std::vector<RequiredShare> missed_shares(const Result& result) {
  std::vector<RequiredShare> missed;
  const auto drawn = count_of(kDrawn, result);
  if (drawn < kDrawnForShares) return missed;
  for (const auto& required : result.required_shares) {
    const auto count = count_of(required.label, result);
    const bool is_below = static_cast<double>(count) < required.share * static_cast<double>(drawn);
    if (is_below && chance_of_so_few(count, drawn, required.share) < kChance)
      missed.push_back(required);
  }
  return missed;
}

std::string share_text(const RequiredShare& share, const Result& result) {
  const auto percent = [](double part) { return std::to_string(std::lround(100 * part)) + " %"; };
  const auto count = count_of(share.label, result), drawn = count_of(kDrawn, result);
  const auto part = static_cast<double>(count) / static_cast<double>(std::max<int64_t>(drawn, 1));
  return share.label + ": " + with_commas(count) + " of " + with_commas(drawn) + " drawn cases (" +
         percent(part) + "), at least " + percent(share.share) + " required";
}

void judge_shares(Result& result) {
  if (result.setting.subject != Setting().subject) return;
  const auto missed = missed_shares(result);
  if (result.kind != Result::Kind::pass || missed.empty()) return;
  std::vector<std::string> texts;
  for (const auto& share : missed) texts.push_back(share_text(share, result));
  result.kind = Result::Kind::fail;
  result.worst = {Verdict::Kind::fail,
                  {{"A run must draw its share of every kind of case that the scenario requires",
                    "label_missed", "", joined(texts, "; ")}}};
}

void add(ScheduleCounts& counts, const ScheduleCounts& more) {
  if (more.complete < more.cases)
    counts.decisions_min = counts.complete < counts.cases
                               ? std::min(counts.decisions_min, more.decisions_min)
                               : more.decisions_min;
  counts.schedules += more.schedules;
  counts.cases += more.cases;
  counts.complete += more.complete;
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
