#include "harness/invariants/averages/divided_again.h"

#include "harness/base/text.h"
#include "harness/invariants/averages/factors.h"
#include "harness/invariants/averages/loss_weights.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/rows.h"
#include "harness/invariants/taken_gradients.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

constexpr size_t kStepsLeast = 2;  // clipping may hit a factor once

// The models whose gradients a communication hook of the program averages, by a rule of its own.
std::set<std::string> hooked_in(const RecordedRun& run) {
  std::set<std::string> hooked;
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kOwnGradients)) hooked.insert(fact->text("of"));
  return hooked;
}

// A model, and its first update that took gradients of one backward divided by the number of ranks,
// where all updates of rank 0 that changed gradients did.
std::optional<std::pair<std::string, Moment>> divided_by_hand(const RecordedRun& run,
                                                              const std::set<std::string>& hooked) {
  const auto world = static_cast<double>(run.ranks.size());
  std::map<std::string, const Digests*> last;
  std::map<std::string, size_t> backwards;  // since the update before
  std::map<std::string, std::vector<Moment>> divided;
  std::set<std::string> others;
  for (const auto& record : run.ranks.front().records) {
    if (const auto* fact = fact_in(record, fact::kBackward)) ++backwards[fact->text("model")];
    if (const auto* fact = std::get_if<Fact>(&record.what); fact && is_optimizer(fact->name))
      backwards.clear();
    const auto* digests = std::get_if<Digests>(&record.what);
    if (!digests) continue;
    const auto& list = *digests->list;
    if (list.role == role::kGradients) last[list.of] = digests;
    if (list.role != role::kTaken || !last.contains(list.of)) continue;
    if (backwards[list.of] == 1 && !hooked.contains(list.of) &&
        !differ(factor_between(*last[list.of], *digests), 1 / world) &&
        have_one_whole_part(run, record.at.step) &&
        loss_weights_in(run, record.at.step) == LossWeights::whole)
      divided[list.of].push_back(record.at);
    else
      others.insert(list.of);
  }
  for (const auto& [of, times] : divided)
    if (times.size() >= kStepsLeast && !others.contains(of)) return std::pair{of, times.front()};
  return {};
}

// A model's backwards since the updates before: their steps, and what the last one left.
struct Since {
  std::set<int> steps;
  const Digests* left = nullptr;
  bool has_update = false;
};

// True if each tensor that is not zero has other values.
bool are_others(const Digests& before, const Digests& after) {
  if (before.values.size() != after.values.size()) return true;
  for (size_t tensor = 0; tensor < before.values.size(); ++tensor)
    if (before.values[tensor].norm > 0 && before.values[tensor].bits == after.values[tensor].bits)
      return false;
  return true;
}

// The steps that took averages as they were: a wrapper's, or the plain ones that the program made
// by hand. Of other ones nothing is said.
std::set<int> plain_steps(const RecordedRun& run, const AveragesOfRun& averages,
                          const std::set<std::string>& hooked) {
  std::set<int> wrapped, changed, by_hand, scaled;
  for (const auto& rank : run.ranks) {
    std::map<std::string, Since> all_since;
    for (const auto& record : rank.records) {
      const int step = record.at.step;
      if (const auto* fact = fact_in(record, fact::kBackward)) {
        const bool is_synchronised = fact->text("kind") == "synchronised";
        if (is_synchronised) wrapped.insert(step);
        if (!is_synchronised || hooked.contains(fact->text("model"))) changed.insert(step);
        auto& since = all_since[fact->text("model")];
        if (since.has_update) since = {};
        since.steps.insert(step);
      }
      if (const auto* left = digests_in(record, role::kGradients))
        all_since[left->list->of].left = left;
      if (const auto* taken = digests_in(record, role::kTaken)) {
        const auto& since = all_since[taken->list->of];
        if (since.left && !are_others(*since.left, *taken)) continue;
        changed.insert(step);
        changed.insert(since.steps.begin(), since.steps.end());
      }
      if (const auto* update = optimizer_in(record))
        for (const auto& [model, name] : owned_in(*update)) all_since[model].has_update = true;
    }
  }
  for (const auto& ranks : averages.all()) {
    const auto& is = *ranks.front();
    const bool is_plain =
        is_optimizer(is.of) && is.at.phase == phase::kUpdate && is_times_the_average(ranks, 1);
    (is_plain ? by_hand : scaled).insert(is.at.step);
  }
  std::set<int> steps;
  for (const int step : wrapped)
    if (!changed.contains(step)) steps.insert(step);
  for (const int step : by_hand)
    if (!scaled.contains(step) && !wrapped.contains(step)) steps.insert(step);
  return steps;
}

// How much the terms of each rank weigh in its losses, by step; NaN where a loss has another part
// than a sum of a known number of terms, or more than one in a backward.
std::map<int, std::vector<double>> weights_of_sums(const RecordedRun& run) {
  std::map<int, std::vector<double>> weights;
  for (size_t number = 0; number < run.ranks.size(); ++number) {
    bool has_part = false;
    for (const auto& record : run.ranks[number].records) {
      if (fact_in(record, fact::kBackward) || fact_in(record, fact::kOwnGradients) ||
          optimizer_in(record))
        has_part = false;
      const auto* fact = fact_in(record, fact::kTerms);
      if (!fact) continue;
      const auto summed = fact->whole("summed");
      auto& by_rank = weights[record.at.step];
      by_rank.resize(run.ranks.size());
      by_rank[number] += summed && !has_part ? fact->number("weight").value_or(std::nan("")) *
                                                   static_cast<double>(*summed)
                                             : std::nan("");
      has_part = true;
    }
  }
  return weights;
}

// The first step whose terms weigh one in all ranks together, where those of no step weigh other.
// Half a mean on each of two ranks does so too: some rank must have more terms than another.
std::optional<Moment> divided_in_the_loss(const RecordedRun& run, const AveragesOfRun& averages,
                                          const std::set<std::string>& hooked) {
  const auto plain = plain_steps(run, averages, hooked);
  std::vector<int> steps;
  bool any_more = false;
  for (const auto& [step, by_rank] : weights_of_sums(run)) {
    if (!plain.contains(step)) continue;
    double all = 0;
    for (const double weight : by_rank) {
      all += weight;
      any_more = any_more || differ(weight, by_rank.front());
    }
    if (std::isnan(all) || differ(all, 1)) return {};
    steps.push_back(step);
  }
  if (steps.size() < kStepsLeast || !any_more) return {};
  return Moment{steps.front(), "backward"};
}

Found divided_twice(const Moment& at, const std::string& what, std::string cause) {
  const auto place = "step " + std::to_string(at.step) + ", " + at.phase;
  return {{"", "divided_twice", place, what, {Cause{std::move(cause)}}}, at};
}

}  // namespace

std::optional<Found> divided_again(const RecordedRun& run, const AveragesOfRun& averages) {
  if (averages.are_multiplied_by_steps()) return {};
  const auto hooked = hooked_in(run);
  if (const auto divided = divided_by_hand(run, hooked))
    return divided_twice(
        divided->second,
        "the gradients that an update took of " + divided->first +
            " are those that its DistributedDataParallel had averaged, divided by the "
            "number of ranks once more",
        "a division by hand behind the backward, which averages already: leave it out");
  if (const auto at = divided_in_the_loss(run, averages, hooked))
    return divided_twice(
        *at,
        "each rank divides the sum in its loss by the number of terms of all ranks, and the "
        "average of the gradients divides by the number of ranks once more: every value "
        "is that of one process divided by the number of ranks",
        "a loss over the terms of all ranks that is not multiplied by the number of "
        "ranks: multiply it");
  return {};
}

}  // namespace lockstep::recorded
