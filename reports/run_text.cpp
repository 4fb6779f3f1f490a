#include "reports/run_text.h"

#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "reports/coverage.h"
#include "reports/style.h"

#include <algorithm>
#include <set>

namespace lockstep::reports {

namespace {

std::string skipped_text(const Run& run, int64_t skipped) {
  constexpr size_t kSaid = 2;
  std::map<std::string, int64_t> counts;
  std::set<std::string> not_covered;
  for (const auto& result : run.results) {
    if (result.kind != Result::Kind::skip) continue;
    const auto reason = weightiest_reason(result);
    ++counts[reason];
    const auto& findings = result.worst.findings;
    if (!findings.empty() && findings.front().pattern == kNotCovered) not_covered.insert(reason);
  }
  std::vector<std::pair<std::string, int64_t>> reasons(counts.begin(), counts.end());
  // A claim that does not cover the run comes before one that nothing was there for.
  const auto weight = [&](const auto& reason) {
    return std::pair(not_covered.contains(reason.first), reason.second);
  };
  std::stable_sort(reasons.begin(), reasons.end(),
                   [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(kSaid, reasons.size()); ++i)
    parts.push_back(std::to_string(reasons[i].second) + ": " + reasons[i].first);
  const auto left = static_cast<int64_t>(reasons.size() - parts.size());
  return std::to_string(skipped) + " skipped (" + joined(parts, ", ") +
         (left > 0 ? ", and " + counted(left, "more reason") : "") + ")";
}

}  // namespace

bool is_reported(const Result& result) {
  return is_failure(result.kind) || result.kind == Result::Kind::inconclusive;
}

std::vector<std::string> distinct(const std::vector<Setting>& settings,
                                  std::string Setting::*member) {
  std::vector<std::string> out;
  for (const auto& setting : settings)
    if (std::find(out.begin(), out.end(), setting.*member) == out.end())
      out.push_back(setting.*member);
  return out;
}

std::string setting_text(const Setting& setting, const std::vector<Setting>& settings) {
  std::string text = setting.tier;
  if (distinct(settings, &Setting::subject).size() > 1) text += " " + setting.subject;
  if (distinct(settings, &Setting::backend).size() > 1) text += " " + setting.backend;
  return text;
}

std::string worlds_text(const Result& result) {
  if (result.world_max == 0) return "";
  const std::string least = std::to_string(result.world_min);
  return result.world_min == result.world_max
             ? "world " + least
             : "worlds " + least + "-" + std::to_string(result.world_max);
}

std::string verdict_text(const Run& run) {
  const auto any = [&](auto holds) {
    return std::any_of(run.results.begin(), run.results.end(), holds);
  };
  if (run.interrupted) return "interrupted";
  if (run.canary == Run::Canary::passed) return "a scenario that must fail passed";
  if (any([](const Result& result) { return is_failure(result.kind); })) return "failed";
  if (!run.missing_shards.empty()) return "shards are missing";
  if (any(is_reported) || run.canary == Run::Canary::inconclusive) return "inconclusive";
  if (run.shard && is_empty(run)) return "nothing to run in this shard";
  return any([](const Result& result) { return result.kind == Result::Kind::pass; })
             ? "all held"
             : "all skipped";
}

std::string scenarios_text(const Run& run) {
  std::set<std::string> names;
  for (const auto& result : run.results) names.insert(result.scenario);
  for (const auto& skip : run.not_finished) names.insert(skip.scenario);
  const auto results = run.results.size() + run.not_finished.size();
  auto text = counted(names.size(), "scenario");
  if (results > names.size()) text += ", " + counted(results, "result");
  return text;
}

std::string counts_text(const Run& run, SkipReasons reasons) {
  using Kind = Result::Kind;
  static constexpr std::pair<Kind, const char*> kWords[] = {{Kind::pass, "passed"},
                                                            {Kind::fail, "failed"},
                                                            {Kind::hang, "hung"},
                                                            {Kind::crash, "crashed"},
                                                            {Kind::leak, "leaked"},
                                                            {Kind::flaky, "flaky"},
                                                            {Kind::inconclusive, "inconclusive"},
                                                            {Kind::skip, ""}};
  std::vector<std::string> parts;
  for (const auto& [kind, word] : kWords) {
    const auto count =
        std::count_if(run.results.begin(), run.results.end(),
                      [kind = kind](const Result& result) { return result.kind == kind; });
    if (count == 0) continue;
    parts.push_back(kind != Kind::skip                 ? std::to_string(count) + " " + word
                    : reasons == SkipReasons::left_out ? std::to_string(count) + " skipped"
                                                       : skipped_text(run, count));
  }
  if (!run.not_finished.empty())
    parts.push_back(std::to_string(run.not_finished.size()) + " not finished");
  int64_t remarks = 0;
  for (const auto& result : run.results) remarks += static_cast<int64_t>(result.remarks.size());
  if (remarks > 0) parts.push_back(counted(remarks, "remark"));
  return joined(parts, ", ");
}

std::string blind_text(const Run& run) {
  if (run.blind.empty()) return "A scenario that must fail passed";
  return "A canary did not come out as it must (" + joined(run.blind, ", ") + ")";
}

std::string statistics(const Run& run) {
  return shares_text(run) + pairs_text(run);
}

std::vector<std::string> remarks(const Run& run) {
  std::vector<std::string> lines;
  if (run.canary == Run::Canary::passed)
    lines.push_back("✗ " + blind_text(run) + ": the passes above prove nothing");
  if (run.canary == Run::Canary::inconclusive)
    lines.push_back(
        "? A scenario that must fail could not be judged: the passes above prove "
        "little");
  if (!run.missing_shards.empty())
    lines.push_back((run.missing_shards.size() == 1 ? "? shard " : "? shards ") +
                    NumberSet(run.missing_shards).text() +
                    (run.missing_shards.size() == 1 ? " is" : " are") +
                    " missing: what would have come to light there is not known");
  if (run.shard && is_empty(run))
    lines.push_back("nothing to run: no scenario has a case for shard " + shard_text(*run.shard));
  return lines;
}

}  // namespace lockstep::reports
