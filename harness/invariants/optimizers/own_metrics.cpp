#include "harness/invariants/optimizers/own_metrics.h"

#include "harness/base/text.h"
#include "harness/invariants/against/against_causes.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep::recorded {

namespace {

struct Metric {
  Moment at;
  double value = 0;
};

// By optimizer, in order.
std::map<std::string, std::vector<Metric>> metrics_of(const Rank& rank) {
  std::map<std::string, std::vector<Metric>> metrics;
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, "metric"))
      metrics[fact->text("of")].push_back(
          {record.at, fact->number("value").value_or(std::nan(""))});
  return metrics;
}

// Whether they differ by more than sums that were taken in another order.
bool differ(double a, double b) {
  constexpr double kPart = 1e-3;
  return std::abs(a - b) > kPart * std::max(std::abs(a), std::abs(b));
}

}  // namespace

std::optional<Found> own_metrics(const RecordedRun& run) {
  constexpr size_t kTimesLeast = 2;
  std::vector<std::map<std::string, std::vector<Metric>>> ranks;
  for (const auto& rank : run.ranks) ranks.push_back(metrics_of(rank));
  for (const auto& [of, first] : ranks.front()) {
    size_t unlike = 0;
    std::optional<Found> found;
    for (size_t number = 0; number < first.size(); ++number) {
      std::vector<std::string> texts;
      bool any = false;
      for (const auto& rank : ranks) {
        const auto own = rank.find(of);
        if (own == rank.end() || own->second.size() != first.size()) return {};
        any = any || differ(own->second[number].value, first[number].value);
        texts.push_back(short_number(own->second[number].value));
      }
      if (!any) continue;
      ++unlike;
      const auto place = "step " + std::to_string(first[number].at.step);
      if (!found)
        found = Found{
            {"",
             "own_metric",
             place,
             "ReduceLROnPlateau of " + of + " gets a metric of its own on each rank, in " + place +
                 ": " + values_text(texts) +
                 ". Each rank then lowers its learning rate when its own part of the data says so",
             {Cause{
                 "a loss or a metric that no all-reduce averages before scheduler.step(metric)"}}},
            first[number].at};
    }
    if (unlike >= kTimesLeast && 2 * unlike >= first.size()) return found;
  }
  return {};
}

}  // namespace lockstep::recorded
