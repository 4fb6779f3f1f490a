#include "reports/coverage.h"

#include "harness/base/text.h"
#include "harness/cases/groups.h"
#include "reports/style.h"

#include <algorithm>
#include <limits>

namespace lockstep::reports {

std::string schedules_text(const ScheduleCounts& counts) {
  if (counts.cases == 0) return "";
  const auto cases = counted(counts.cases, "case");
  const auto text = counted(counts.schedules, "schedule") + ", ";
  if (counts.complete == counts.cases) return text + "all of " + cases;
  return text + "all of " + with_commas(counts.complete) + " of " + cases +
         ", the others up to decision " + std::to_string(counts.decisions_min);
}

std::string shares_text(const Run& run) {
  const bool is_shard_with_shares =
      run.shard && std::any_of(run.results.begin(), run.results.end(),
                               [](const auto& result) { return !result.required_shares.empty(); });
  if (is_shard_with_shares) return "labels: 'report' of all shards judges the required shares\n";
  int64_t met = 0, judged = 0, too_few = 0;
  std::string closest;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& result : run.results) {
    if (result.required_shares.empty()) continue;
    const auto drawn = count_of(kDrawn, result);
    too_few += drawn < kDrawnForShares;
    if (drawn < kDrawnForShares) continue;
    judged += static_cast<int64_t>(result.required_shares.size());
    met += static_cast<int64_t>(result.required_shares.size() - missed_shares(result).size());
    for (const auto& share : result.required_shares) {
      const double margin = static_cast<double>(count_of(share.label, result)) /
                            (share.share * static_cast<double>(drawn));
      if (margin >= least) continue;
      least = margin;
      closest = result.scenario + ", " + share_text(share, result);
    }
  }
  std::string text;
  if (judged > 0)
    text += "labels: " + with_commas(met) + " of " + counted(judged, "required share") +
            " met; the closest: " + closest + "\n";
  if (too_few > 0)
    text += "labels: " + counted(too_few, "result") + " drew fewer than " +
            std::to_string(kDrawnForShares) + " cases, too few to judge their shares\n";
  return text;
}

std::string pairs_text(const Run& run) {
  std::map<std::string, const JobSummary*> lists;
  for (const auto& summary : run.jobs)
    if (summary.pairs.all > 0) lists.emplace(summary.scenario, &summary);
  PairCoverage sum;
  const JobSummary* least = nullptr;
  const auto share = [](const PairCoverage& pairs) {
    return static_cast<double>(pairs.covered) / static_cast<double>(pairs.all);
  };
  for (const auto& [scenario, summary] : lists) {
    sum.covered += summary->pairs.covered;
    sum.all += summary->pairs.all;
    if (!least || share(summary->pairs) < share(least->pairs)) least = summary;
  }
  const auto text = [](const PairCoverage& pairs) {
    return with_commas(pairs.covered) + " of " + with_commas(pairs.all);
  };
  if (!least) return "";
  return "pairs of options: " + text(sum) + " covered" +
         (lists.size() > 1 ? "; the fewest: " + text(least->pairs) + " of " + least->scenario
                           : "") +
         "\n";
}

std::string weightiest_reason(const Result& result) {
  return std::max_element(result.refused.begin(), result.refused.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace lockstep::reports
