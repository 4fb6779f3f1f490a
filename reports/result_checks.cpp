#include "reports/result_checks.h"

#include "harness/cases/groups.h"
#include "reports/devices.h"

#include <set>

namespace lockstep::reports {

namespace {

bool belongs_to(Result::Kind kind, Verdict::Kind verdict) {
  if (kind == Result::Kind::skip) return verdict == Verdict::Kind::refused;
  if (kind == Result::Kind::flaky) return is_failure(verdict);
  return name_of(kind) == name_of(verdict);
}

// A reason that refused no case is left out.
std::map<std::string, int64_t> not_zero(std::map<std::string, int64_t> counts) {
  std::erase_if(counts, [](const auto& count) { return count.second == 0; });
  return counts;
}

// Each signature that was counted has its case, and nothing else has.
void check_signatures(const At& at, const Result& result) {
  std::set<std::string> counted, reported;
  for (const auto& [signature, cases] : result.signatures) counted.insert(signature);
  for (const auto& one : by_signature(result))
    if (one.failure) reported.insert(one.worst.signature());
  const bool once_each = reported.size() == result.others.size() + (result.failure ? 1 : 0);
  if ((!counted.empty() || !result.others.empty()) && (reported != counted || !once_each))
    at["signatures"].wrong("are not those of the result and its 'others'");
}

void check_counts(const At& at, const Result& result) {
  Result counted;
  counted.groups = result.groups;
  count_groups(counted);
  const bool agrees =
      counted.judged == result.judged && counted.labels == result.labels &&
      counted.signatures == result.signatures && counted.refused == not_zero(result.refused) &&
      counted.world_min == result.world_min && counted.world_max == result.world_max;
  if (!agrees) at["groups"].wrong("do not add up to what the result counts");
}

void check_kind(const At& at, const Result& result) {
  const bool holds = result.kind == Result::Kind::pass || result.kind == Result::Kind::skip;
  check_verdict(at, result.kind, result.worst);
  if (holds && result.failure) at["failure"].wrong("a result that holds has none");
  const bool only_misses_a_share =
      result.kind == Result::Kind::fail && !missed_shares(result).empty();
  // A recorded run has no case that could run again.
  const bool has_case = result.setting.tier != "recorded" && !only_misses_a_share;
  if (!holds && result.judged > 0 && !result.failure && has_case)
    at.wrong("the field 'failure' is missing");
  if (result.kind == Result::Kind::skip && result.refused.empty())
    at["refused"].wrong("a result that is skipped has a reason");
}

}  // namespace

void check_signature(const At& at, const Verdict& verdict) {
  if (at["signature"].text() != verdict.signature())
    at["signature"].wrong("is not that of the verdict and its first finding");
}

void check_verdict(const At& at, Result::Kind kind, const Verdict& verdict) {
  if (!belongs_to(kind, verdict.kind))
    at["verdict"].wrong("is not one of a result that is '" + std::string(name_of(kind)) + "'");
}

void check_sharing(const At& at, const Result& result, const Run& run) {
  const auto* shared = shared_by(result, run);
  const bool agrees =
      shared ? at["shares_devices"].text() == shared_text(*shared) : !at.has("shares_devices");
  if (!agrees) at.wrong("'shares_devices' is not what the run's 'shared_devices' say");
}

void check_agreement(const At& at, const Result& result) {
  check_signatures(at, result);
  check_counts(at, result);
  check_kind(at, result);
}

}  // namespace lockstep::reports
