#include "harness/invariants/habits/scaled_averages.h"

#include "harness/base/text.h"
#include "harness/invariants/habits/updates_by_hand.h"
#include "harness/invariants/local_updates.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::recorded {

namespace {

using Tensors = std::vector<TensorList::Entry>;
using Held = std::vector<const Digests*>;  // by rank

// By what a time between updates multiplied the parameters: as a whole, and the tensors that it
// multiplied least and most.
struct Growth {
  double of_all, least, most;
  size_t tensors = 0;
  bool is_from_zero = false;  // the ranks had all begun at zero
};

std::optional<Growth> growth_of(const Digests& now, const Held& before) {
  double all_now = 0, all_before = 0;
  Growth growth{0, INFINITY, 0};
  for (size_t tensor = 0; tensor < now.values.size(); ++tensor) {
    double norm = 0;
    for (const auto* is : before) norm += is->values[tensor].norm;
    norm /= static_cast<double>(before.size());
    if (!(norm > 0) || !std::isfinite(norm) || !std::isfinite(now.values[tensor].norm)) continue;
    const double part = now.values[tensor].norm / norm;
    growth.least = std::min(growth.least, part);
    growth.most = std::max(growth.most, part);
    ++growth.tensors;
    all_now += std::pow(now.values[tensor].norm, 2);
    all_before += norm * norm;
  }
  if (!(all_before > 0)) return {};
  growth.of_all = std::sqrt(all_now / all_before);
  return growth;
}

bool is_near(double value, double wanted) {
  constexpr double kPart = 0.1;  // ranks have parted a little
  return std::abs(value - wanted) <= kPart * wanted;
}

bool is_sum(const Growth& is, double world) {
  constexpr double kLeast = 1.2;  // of every tensor
  return is_near(is.of_all, world) && is.least > kLeast;
}

// Every tensor is what a sum leaves, which an outer optimizer does to all of them from zero alone.
bool is_sum_of_each(const Growth& is, double world) {
  return is.tensors > 1 && !is.is_from_zero && is_near(is.least, world) && is_near(is.most, world);
}

// Independent tensors have an average that is smaller than they are, by the root of their number.
bool is_divided_twice(const Growth& is, double world) {
  constexpr double kMost = 0.8;
  return is_near(is.of_all, 1 / world) && is.most < kMost;
}

// A model's tensors, and what the ranks hold of them at last.
struct Latest {
  Tensors tensors;
  Held held;
  bool was_zero = false;  // on all ranks, when they held the same
};

Latest& latest_of(std::vector<Latest>& all, const Tensors& tensors) {
  const auto found = std::ranges::find(all, tensors, &Latest::tensors);
  return found != all.end() ? *found : all.emplace_back(Latest{tensors, {}});
}

bool is_zero(const Digests& digests) {
  return std::ranges::all_of(digests.values, [](const Digest& is) { return is.norm == 0; });
}

// A time at which ranks that had other parameters each have the same ones by no update.
struct Averaging {
  std::string of;
  Moment at;
  Growth growth;
};

std::vector<Averaging> averagings_in(const RecordedRun& run) {
  std::vector<Averaging> all;
  const bool updates_by_hand_alone = averaged_between_updates(run).empty();
  // By tensors: a new optimizer takes over its own. What is updated by hand has names of its own.
  std::vector<Latest> last, last_by_hand;
  auto rows = rows_of(run, role::kParameters);
  for (auto& row : rows_of(run, role::kEnded)) rows.push_back(std::move(row));
  for (const auto& row : rows) {
    const bool is_by_hand = row.of == kNoOptimizer;
    if (!row.is_whole() || row.is_divided() || (updates_by_hand_alone && !is_by_hand)) continue;
    const auto& first = *row.by_rank.front();
    auto& latest = latest_of(is_by_hand ? last_by_hand : last, first.list->tensors);
    const auto& held = latest.held;
    const bool had_others = held.size() == run.ranks.size() && !all_hold_the_same(held);
    const bool is_same = all_hold_the_same(row.by_rank);
    if (had_others && row.at.phase != phase::kUpdate && is_same)
      if (auto growth = growth_of(first, held)) {
        growth->is_from_zero = latest.was_zero;
        all.push_back({row.of, row.at, *growth});
      }
    if (is_same) latest.was_zero = is_zero(first);
    keep_latest(row, latest.held);
  }
  return all;
}

}  // namespace

std::optional<Found> scaled_average(const RecordedRun& run) {
  const auto all = averagings_in(run);
  if (all.empty()) return {};
  const auto world = static_cast<double>(run.ranks.size());
  const auto count = [&](auto is) {
    return std::count_if(all.begin(), all.end(),
                         [&](const Averaging& each) { return is(each.growth, world); });
  };
  const auto times = static_cast<std::ptrdiff_t>(all.size());
  const auto sums = count(is_sum);
  // All, or all behind a right one; an outer optimizer may move parameters as far now and then, but
  // not each tensor.
  const bool is_sums = sums == times || count(is_sum_of_each) > 0 ||
                       (times > 2 && sums == times - 1 && !is_sum(all.front().growth, world));
  if (!is_sums && count(is_divided_twice) < times) return {};
  const auto& first = *std::find_if(all.begin(), all.end(), [&](const Averaging& each) {
    return !is_sums || is_sum(each.growth, world);
  });
  const auto place = "step " + std::to_string(first.at.step) + ", " + first.at.phase;
  return Found{
      {"",
       is_sums ? "sum_not_average" : "divided_twice",
       place,
       "parameters of " + first.of + " that the program makes the same between updates are " +
           (is_sums ? std::to_string(run.ranks.size()) + " times what the ranks had"
                    : "1/" + std::to_string(run.ranks.size()) + " of what the ranks had") +
           (is_sums && sums < times
                ? ", in " + std::to_string(sums) + " of " + counted(all.size(), "time")
                : ", each time") +
           ": no average of it",
       {Cause{is_sums ? "an all-reduce of parameters whose result is not divided by the number of "
                        "ranks, or weights of the ranks that do not add up to one"
                      : "an average that is divided once more, or weights of the ranks that do not "
                        "add up to one"}}},
      first.at};
}

}  // namespace lockstep::recorded
