#include "harness/invariants/optimizers/own_metrics.h"

#include "harness/base/text.h"
#include "harness/invariants/against/against_causes.h"
#include "harness/invariants/rows.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep::recorded {

namespace {

struct Metric {
  Moment at;
  double value = 0;
};

using Metrics = std::map<std::string, std::vector<Metric>>;  // by optimizer, in order

Metrics metrics_of(const Rank& rank) {
  Metrics metrics;
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, fact::kMetric))
      metrics[fact->text("of")].push_back(
          {record.at, fact->number("value").value_or(std::nan(""))});
  return metrics;
}

// True if the scheduler of this optimizer is asked as often on all ranks.
bool all_ask(const std::vector<Metrics>& ranks, const std::string& of) {
  const auto times = [&](const Metrics& rank) {
    const auto own = rank.find(of);
    return own == rank.end() ? 0 : own->second.size();
  };
  return std::ranges::all_of(
      ranks, [&](const Metrics& rank) { return times(rank) == times(ranks.front()); });
}

Finding own_metric(const std::string& of, const Moment& at, const std::vector<std::string>& texts) {
  const auto place = "step " + std::to_string(at.step);
  return {"",
          "own_metric",
          place,
          "ReduceLROnPlateau of " + of + " gets a metric of its own on each rank, in " + place +
              ": " + values_text(texts) +
              ". Each rank's scheduler lowers the rate when its own part of the data says so: the "
              "rates part, unless the program makes them the same",
          {Cause{"a loss or a metric that no all-reduce averages before scheduler.step(metric)"}}};
}

}  // namespace

std::optional<Finding> own_metrics(const RecordedRun& run) {
  constexpr size_t kTimesLeast = 2;
  std::vector<Metrics> ranks;
  for (const auto& rank : run.ranks) ranks.push_back(metrics_of(rank));
  for (const auto& [of, first] : ranks.front()) {
    if (!all_ask(ranks, of)) continue;
    size_t unlike = 0;
    std::optional<Finding> found;
    for (size_t number = 0; number < first.size(); ++number) {
      std::vector<std::string> texts;
      bool any = false;
      for (const auto& rank : ranks) {
        const auto own = rank.find(of);
        any = any || differ(own->second[number].value, first[number].value);
        texts.push_back(short_number(own->second[number].value));
      }
      if (!any) continue;
      ++unlike;
      if (!found) found = own_metric(of, first[number].at, texts);
    }
    if (unlike >= kTimesLeast && 2 * unlike >= first.size()) return found;
  }
  return {};
}

}  // namespace lockstep::recorded
