// Says whether the losses of a step count whole (declared in loss_weights.h).
#include "harness/invariants/averages/loss_weights.h"
#include "harness/invariants/rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep::recorded {

namespace {

constexpr double kWholeLeast = 0.9;  // the weight of a part that counts whole

// The largest weight of a part of each of a rank's backwards of a step. A smaller one is an
// auxiliary part's.
std::vector<double> largest_weights(const Rank& rank, int step) {
  std::vector<double> all;
  bool is_further = false;  // a part of the same backward came before
  for (const auto& record : rank.records) {
    if (fact_in(record, fact::kBackward) || fact_in(record, fact::kOwnGradients))
      is_further = false;
    const auto* fact = fact_in(record, fact::kTerms);
    if (!fact || record.at.step != step) continue;
    if (!is_further) all.push_back(0);
    is_further = true;
    const double is = fact->number("weight").value_or(std::nan(""));
    all.back() = std::isnan(is) ? all.back() : std::max(all.back(), is);
  }
  return all;
}

// The weight of the largest part in a step's losses. Backwards of the same weight add up to it, but
// for losses of their own that each is divided by the number of ranks.
double largest_weight(const Rank& rank, int step, double world) {
  const auto all = largest_weights(rank, step);
  if (all.empty()) return 0;
  const bool are_alike =
      std::ranges::none_of(all, [&](double weight) { return differ(weight, all.front()); });
  return are_alike && differ(all.front() * world, 1) ? all.front() * static_cast<double>(all.size())
                                                     : *std::ranges::max_element(all);
}

}  // namespace

LossWeights loss_weights_in(const RecordedRun& run, int step) {
  bool any = false, all_known = true, all_multiplied = true, all_whole = true, any_divided = false;
  bool any_unclear = false;  // a part looks divided, and the largest one is no plain loss
  const auto world = static_cast<double>(run.ranks.size());
  for (const auto& rank : run.ranks) {
    const double most = largest_weight(rank, step, world);
    bool any_divided_part = false;
    for (const auto& record : rank.records) {
      const auto* fact = fact_in(record, fact::kTerms);
      if (!fact || record.at.step != step) continue;
      const double is = fact->number("weight").value_or(std::nan(""));
      any = true;
      all_known = all_known && !std::isnan(is) && fact->whole("terms").has_value();
      any_divided_part = any_divided_part || !differ(is * world, 1);
      all_multiplied = all_multiplied && is >= world / 1.5;
    }
    any_divided = any_divided || (most > 0 && most <= 1.5 / world);
    any_unclear = any_unclear || (any_divided_part && differ(most, 1));
    all_whole = all_whole && most >= kWholeLeast;
  }
  if (any_divided) return LossWeights::divided;
  if (!any || !all_known || !all_whole || any_unclear) return LossWeights::unknown;
  return all_multiplied ? LossWeights::multiplied : LossWeights::whole;
}

bool have_one_whole_part(const RecordedRun& run, int step) {
  const auto is_whole = [&](const Record& record) {
    const auto* fact = fact_in(record, fact::kTerms);
    return fact && record.at.step == step && fact->number("weight").value_or(1) >= kWholeLeast;
  };
  return std::ranges::all_of(run.ranks, [&](const Rank& rank) {
    return std::ranges::count_if(rank.records, is_whole) == 1;
  });
}

}  // namespace lockstep::recorded
