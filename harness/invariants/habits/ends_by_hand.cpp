#include "harness/invariants/habits/ends_by_hand.h"

#include "harness/base/text.h"
#include "harness/invariants/endings.h"
#include "harness/invariants/habits/updates_by_hand.h"
#include "harness/invariants/local_updates.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>

namespace lockstep::recorded {

namespace {

using Held = std::vector<const Digests*>;

// Lists the rank's records of such parameters, in order.
Held held_by_hand(const Rank& rank) {
  Held held;
  for (const auto& record : rank.records)
    for (const char* role : {"parameters", "ended"})
      if (const auto* is = digests_in(record, role); is && is->list->of == kNoOptimizer)
        held.push_back(is);
  return held;
}

// True if a step changes such parameters between its backwards, for a task that a rank then leaves.
bool trains_within_steps(const RecordedRun& run) {
  return std::ranges::any_of(run.ranks, [](const Rank& rank) {
    return std::ranges::any_of(rank.records, [](const Record& record) {
      return fact_in(record, fact::kTrainedWithinAStep) != nullptr;
    });
  });
}

// The `number`-th that each rank recorded.
Held numbered(const std::vector<Held>& ranks, size_t number) {
  Held held;
  for (const auto& rank : ranks) held.push_back(rank[number]);
  return held;
}

// The elements of such parameters that the rank's backwards reach.
int64_t elements_reached(const Rank& rank) {
  int64_t elements = 0;
  for (const auto& record : rank.records)
    if (const auto* is = digests_in(record, role::kBegun); is && is->list->of == kNoOptimizer)
      for (const auto& tensor : is->list->tensors) elements += count_of(tensor.shape);
  return elements;
}

// True if all ranks' backwards reach as many of them, which the program averages: else what each
// changes may be its own.
bool reach_and_average_the_same(const RecordedRun& run) {
  const auto first = elements_reached(run.ranks.front());
  return std::ranges::all_of(run.ranks, [&](const Rank& rank) {
    return elements_reached(rank) == first && elements_averaged(rank) >= first;
  });
}

// One rank updates and sends the result at the begin of each step: at the end it is one ahead.
bool is_one_ahead(const std::vector<Held>& ranks, size_t least) {
  return std::ranges::count_if(ranks, [&](const Held& is) { return is.size() == least + 1; }) ==
             1 &&
         std::ranges::count_if(ranks, [&](const Held& is) { return is.size() == least; }) ==
             static_cast<std::ptrdiff_t>(ranks.size()) - 1;
}

Found ends_unlike(const RecordedRun& run, const char* pattern, std::string what,
                  const char* cause) {
  return {{"", pattern, "the end of the run", std::move(what), {Cause{cause}}},
          run.ranks.front().history.last};
}

Found updated_on_some(const RecordedRun& run, const std::vector<Held>& ranks) {
  std::vector<std::string> changes;
  for (const auto& rank : ranks) changes.push_back(counted(rank.size(), "change"));
  return ends_unlike(
      run, "updated_on_some_ranks",
      "the program changed parameters that no wrapper and no optimizer has more often on "
      "some ranks than on others, and they end unlike: " +
          values_text(changes),
      "an update under a condition that differs by rank, its own loss say");
}

}  // namespace

std::optional<Found> ended_unlike(const RecordedRun& run) {
  constexpr size_t kAlikeLeast = 2;
  if (!all_returned(run) || trains_within_steps(run) || order_is_unknown(run)) return {};
  std::vector<Held> ranks;
  for (const auto& rank : run.ranks) ranks.push_back(held_by_hand(rank));
  const auto [least, most] =
      std::ranges::minmax_element(ranks, {}, [](const Held& held) { return held.size(); });
  const bool is_last_alone = least->size() == most->size();
  const size_t alike = least->size() - (is_last_alone && !least->empty() ? 1 : 0);
  const bool any_never =
      least->empty() && most->size() >= kAlikeLeast && reach_and_average_the_same(run);
  if (any_never) return updated_on_some(run, ranks);
  if (alike < kAlikeLeast) return {};
  for (size_t number = 0; number < alike; ++number)
    if (!all_hold_the_same(numbered(ranks, number))) return {};
  Held ends;
  for (const auto& rank : ranks) {
    ends.push_back(rank.back());
    if (rank.back()->list->tensors != ranks.front().back()->list->tensors) return {};
  }
  if (all_hold_the_same(ends)) return {};
  if (!is_last_alone && is_one_ahead(ranks, least->size())) return {};
  if (!is_last_alone) return updated_on_some(run, ranks);
  return ends_unlike(
      run, "last_update_alone",
      "parameters that no wrapper and no optimizer has are the same on all ranks up to "
      "the last update of the program, and differ behind it",
      "the last update takes gradients that nothing averaged: average them in each step, "
      "the last one of an epoch too");
}

}  // namespace lockstep::recorded
