#include "harness/invariants/averages/factors.h"

#include "harness/base/text.h"
#include "harness/invariants/averages/averaged.h"
#include "harness/invariants/averages/loss_weights.h"
#include "harness/invariants/averages/other_reductions.h"
#include "harness/invariants/taken_gradients.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace lockstep::recorded {

namespace {

constexpr size_t kValuesLeast = 3;  // that say something

// A value as all ranks had it together, and as they took it.
struct Sum {
  double of_all = 0, taken = 0;
};

// Those of the values whose sum is not near zero.
std::vector<Sum> sums_of(const AveragedByRank& ranks) {
  constexpr double kCancelled = 0.1;
  std::vector<Sum> sums;
  for (const auto& value : values_of(ranks)) {
    double sum = 0, size = 0;
    for (const double own : value.own) {
      sum += own;
      size += std::abs(own);
    }
    if (std::abs(sum) > kCancelled * size) sums.push_back({sum, value.taken});
  }
  return sums;
}

}  // namespace

bool is_times_the_average(const AveragedByRank& ranks, double factor) {
  constexpr double kPart = 0.05;  // half precision rounds too
  const auto sums = sums_of(ranks);
  return sums.size() >= kValuesLeast && std::ranges::all_of(sums, [&](const Sum& sum) {
           const double wanted = factor * sum.of_all / static_cast<double>(ranks.size());
           return std::abs(sum.taken - wanted) <= kPart * std::abs(wanted);
         });
}

namespace {

// True if ranks exchange activations in a step: parts of one model, whose gradients want a sum.
bool exchanges_activations(const RecordedRun& run, int step) {
  constexpr int64_t kMetricElementsMost = 1024;
  for (const auto& rank : run.ranks)
    for (const auto& event : rank.history.events)
      if (const auto* is = std::get_if<Collective>(&event.what);
          is && event.at.step == step && event.at.phase == phase::kForward &&
          !is->op.starts_with("ddp_") && is->elements > kMetricElementsMost)
        return true;
  return false;
}

Finding finding_of(const AveragedGradients& is, const char* pattern, const char* what,
                   std::string cause) {
  return {"",
          pattern,
          "step " + std::to_string(is.at.step) + ", " + is.at.phase,
          gradients_text(is) + what,
          {Cause{std::move(cause)}}};
}

Finding summed(const AveragedGradients& is) {
  return finding_of(
      is, "sum_not_average",
      " are the sum of those that the ranks computed, and not their average: every value is that "
      "of one process times the number of ranks",
      std::string("an all-reduce whose result is not divided by the number of ranks, in ") +
          (is.is_hooked ? "a hook of a parameter (register_hook)" : "a communication hook") +
          " say: divide it, or reduce with ReduceOp.AVG");
}

Finding divided_twice(const AveragedGradients& is) {
  return finding_of(
      is, "divided_twice",
      " are the average of those that the ranks computed, divided by the number of ranks once "
      "more: every value is that of one process divided by the number of ranks",
      "a communication hook, or an average by hand, that divides both before the "
      "all-reduce and after it, or divides the result of ReduceOp.AVG: divide once");
}

// The first that is certain is a finding, and the first of the others a remark.
void add(Judgement& judgement, bool is_certain, Finding finding, const Moment& at) {
  if (is_certain && judgement.findings.empty()) {
    judgement.add(Found{std::move(finding), at});
  } else if (judgement.remarks.empty()) {
    judgement.remarks.push_back(std::move(finding));
  }
}

// The factor by which an update took what a communication hook had averaged.
double factor_behind(const RecordedRun& run, const AveragedGradients& is) {
  return is.at.phase == phase::kBackward ? factor_taken(run, is.of, is.at.step) : 1;
}

// By what the program divides the sum of the ranks' gradients, where that is a whole number in
// every value; 0 where not.
int64_t divisor_of(const AveragedByRank& ranks) {
  constexpr double kPart = 1e-3, kMost = 1e6;
  const auto sums = sums_of(ranks);
  if (sums.size() < kValuesLeast) return 0;
  const double first = sums.front().of_all / sums.front().taken;
  if (!(std::abs(first) < kMost)) return 0;
  const auto is = std::llround(first);
  const bool have_all = std::ranges::all_of(sums, [&](const Sum& sum) {
    const double each = sum.of_all / sum.taken;
    return std::abs(each - static_cast<double>(is)) <= kPart * each;
  });
  return have_all ? is : 0;
}

// Averages of one backward each, all divided by one number that is not that of the ranks. Where
// some are divided by another one, the program scales gradients on purpose.
void add_another_divisor(const RecordedRun& run, const AveragesOfRun& averages,
                         Judgement& judgement) {
  constexpr size_t kTimesLeast = 3;
  const auto world = static_cast<int64_t>(run.ranks.size());
  if (averages.all().size() < kTimesLeast) return;
  const auto divisor = divisor_of(averages.all().front());
  if (divisor < 2 || divisor == world || averages.are_multiplied_by_steps()) return;
  for (const auto& ranks : averages.all()) {
    const auto& is = *ranks.front();
    if (is.backwards != 1 || divisor_of(ranks) != divisor || differ(factor_behind(run, is), 1) ||
        !have_one_whole_part(run, is.at.step) ||
        loss_weights_in(run, is.at.step) != LossWeights::whole)
      return;
  }
  const auto& first = *averages.all().front().front();
  const auto what = " are the sum of those that the ranks computed divided by " +
                    std::to_string(divisor) + ", and there are " + std::to_string(world) + " ranks";
  // A program may divide by the root of the number of ranks, to make up for the larger batch.
  add(judgement, divisor * divisor != world,
      finding_of(first, "another_divisor", what.c_str(),
                 "a number of ranks that is written into the program, or counted elsewhere: "
                 "divide by get_world_size()"),
      first.at);
}

// Where a loss that the program multiplies by the number of ranks does not want it.
void add_divided_twice(const RecordedRun& run, const AveragesOfRun& averages,
                       Judgement& judgement) {
  constexpr size_t kTimesLeast = 2;  // clipping may hit the factor once
  if (averages.are_multiplied_by_steps()) return;
  const auto world = static_cast<double>(run.ranks.size());
  std::map<std::string, AveragedByRank> divided;
  std::set<std::string> others;
  for (const auto& ranks : averages.all()) {
    const auto& first = *ranks.front();
    if (first.backwards == 1 && is_times_the_average(ranks, 1 / world) &&
        differ(factor_behind(run, first), world))
      divided[first.of].push_back(&first);
    else
      others.insert(first.of);
  }
  for (const auto& [of, times] : divided) {
    if (times.size() < kTimesLeast || others.contains(of)) continue;
    const auto& first = *times.front();
    const auto weights = loss_weights_in(run, first.at.step);
    if (weights == LossWeights::multiplied) continue;
    if (weights == LossWeights::whole && !have_one_whole_part(run, first.at.step)) continue;
    // Those of one optimizer among several may be scaled on purpose.
    add(judgement, weights == LossWeights::whole && others.empty(), divided_twice(first), first.at);
  }
}

void add_sums(const RecordedRun& run, const std::vector<AveragedByRank>& all,
              Judgement& judgement) {
  for (const auto& ranks : all) {
    const auto& first = *ranks.front();
    const auto world = static_cast<double>(ranks.size());
    if (!is_times_the_average(ranks, world) || !differ(world * factor_behind(run, first), 1))
      continue;
    const auto weights = loss_weights_in(run, first.at.step);
    // A further backward adds to them, and the next sum counts them once more.
    const bool is_added_to = is_optimizer(first.of) && first.at.phase == phase::kBackward;
    if (!is_added_to && (weights == LossWeights::divided ||
                         (first.is_hooked && exchanges_activations(run, first.at.step))))
      continue;
    add(judgement, is_added_to || weights != LossWeights::unknown, summed(first), first.at);
    return;
  }
}

}  // namespace

void add_factors(const RecordedRun& run, const AveragesOfRun& averages, Judgement& judgement,
                 size_t& compared) {
  for (const auto& ranks : averages.all()) compared += values_of(ranks).empty() ? 0 : 1;
  add_sums(run, averages.all(), judgement);
  add_divided_twice(run, averages, judgement);
  if (judgement.findings.empty()) add_another_divisor(run, averages, judgement);
  if (auto same = same_gradients(averages.all());
      same && !exchanges_activations(run, averages.all().front().front()->at.step)) {
    judgement.add(Found{std::move(*same), averages.all().front().front()->at});
    return;
  }
  for (const auto& ranks : averages.all())
    if (auto other = other_reduction(ranks)) {
      judgement.add(Found{std::move(*other), ranks.front()->at});
      return;
    }
}

}  // namespace lockstep::recorded
