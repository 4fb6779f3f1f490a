#include "harness/invariants/averages/other_reductions.h"

#include "harness/base/text.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace lockstep::recorded {

namespace {

// True if `of` gives what was taken in every value, and at least in three no multiple of the
// average would.
template <class Of>
bool explains(const std::vector<AveragedValue>& values, Of of) {
  constexpr double kPart = 0.02;  // half precision rounds too
  constexpr double kApart = 0.1;  // of the largest, by which it differs from the average
  constexpr size_t kValuesLeast = 3;
  size_t apart = 0;
  double factor_least = 0, factor_most = 0;  // taken, as multiples of the average
  for (const auto& value : values) {
    const double wanted = of(value.own);
    double sum = 0, most = 0;
    size_t nonzero = 0;
    for (const double own : value.own) {
      sum += own;
      most = std::max(most, std::abs(own));
      nonzero += own != 0 ? 1 : 0;
    }
    if (!(std::abs(value.taken - wanted) <= kPart * std::abs(wanted))) return false;
    const double average = sum / static_cast<double>(value.own.size());
    if (nonzero < 2 || !(std::abs(wanted - average) > kApart * most)) continue;
    const double factor = value.taken / average;
    factor_least = apart == 0 ? factor : std::min(factor_least, factor);
    factor_most = apart == 0 ? factor : std::max(factor_most, factor);
    ++apart;
  }
  return apart >= kValuesLeast && factor_most - factor_least > kApart;
}

double median_of(std::vector<double> own) {  // the lower one of two, as torch.median has it
  std::sort(own.begin(), own.end());
  return own[(own.size() - 1) / 2];
}

}  // namespace

std::optional<Finding> other_reduction(const AveragedByRank& ranks) {
  const auto values = values_of(ranks);
  const auto& is = *ranks.front();
  const auto finding = [&](const char* pattern, const std::string& what, std::string cause) {
    return Finding{"",
                   pattern,
                   "step " + std::to_string(is.at.step) + ", " + is.at.phase,
                   gradients_text(is) + what,
                   {Cause{std::move(cause)}}};
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (explains(values, [&](const auto& own) { return own[rank]; }))
      return finding("one_ranks_gradient",
                     " are those of rank " + std::to_string(rank) +
                         " on all ranks, and not the average of those that the ranks computed: "
                         "what the others computed is lost",
                     "a broadcast of gradients, or one place of what an all_gather "
                     "returned, where an all-reduce belongs");
  constexpr const char* kNotTheAverage =
      " of those that the ranks computed, element by element, and not their average";
  if (explains(values, [](const auto& own) { return *std::max_element(own.begin(), own.end()); }))
    return finding("another_reduction", std::string(" are the largest") + kNotTheAverage,
                   "an all-reduce with ReduceOp.MAX");
  if (explains(values, [](const auto& own) { return *std::min_element(own.begin(), own.end()); }))
    return finding("another_reduction", std::string(" are the least") + kNotTheAverage,
                   "an all-reduce with ReduceOp.MIN, or the median of two");
  if (explains(values, median_of))
    return finding("another_reduction", std::string(" are the median") + kNotTheAverage,
                   "a median of what an all_gather returned: where it is meant, allow it");
  return {};
}

std::optional<Finding> same_gradients(const std::vector<AveragedByRank>& all) {
  constexpr size_t kAveragesLeast = 2, kValuesLeast = 3;
  std::set<std::vector<double>> unlike;  // the first rank's, of each average
  for (const auto& ranks : all) {
    // A wrapper has averaged before a backward of the bare module, and all ranks hold the same.
    if (!is_optimizer(ranks.front()->of)) return {};
    std::vector<double> first;
    for (const auto& value : values_of(ranks)) {
      if (std::any_of(value.own.begin(), value.own.end(),
                      [&](double own) { return own != value.own.front(); }))
        return {};
      if (value.own.front() != 0) first.push_back(value.own.front());
    }
    if (first.size() >= kValuesLeast) unlike.insert(std::move(first));
  }
  if (unlike.size() < kAveragesLeast) return {};
  const auto& is = *all.front().front();
  return Finding{"",
                 "same_data",
                 "step " + std::to_string(is.at.step) + ", " + is.at.phase,
                 "all ranks computed the same gradients of " + is.of +
                     ", value for value, before each of " + counted(unlike.size(), "average") +
                     " that were looked at: all train on one batch, and the average is what one "
                     "rank computed",
                 {Cause{"batches that are cut from an order of all samples without the rank, or "
                        "samples that are drawn from one seed"}}};
}

}  // namespace lockstep::recorded
