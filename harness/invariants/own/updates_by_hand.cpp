#include "harness/invariants/own/updates_by_hand.h"

#include "harness/base/text.h"
#include "harness/invariants/endings.h"
#include "harness/invariants/local_updates.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

std::vector<std::vector<int64_t>> shapes_of(const Digests& digests) {
  std::vector<std::vector<int64_t>> shapes;
  for (const auto& tensor : digests.list->tensors) shapes.push_back(tensor.shape);
  return shapes;
}

// True if two ranks have a tensor at other places of their lists, or lists of other shapes.
bool are_in_other_orders(const Digests& one, const Digests& other) {
  if (shapes_of(one) != shapes_of(other)) return true;
  std::multiset<uint64_t> left;  // bits that the other rank has not at the same place
  for (size_t i = 0; i < one.values.size(); ++i)
    if (one.values[i].bits != other.values[i].bits) left.insert(one.values[i].bits);
  return std::any_of(other.values.begin(), other.values.end(), [&](const auto& value) {
    const auto i = static_cast<size_t>(&value - other.values.data());
    return value.bits != one.values[i].bits && left.contains(value.bits);
  });
}

// The bits that each rank found such parameters with, by name.
using Begun = std::map<std::string, std::vector<uint64_t>>;

Begun begun_in(const RecordedRun& run, bool only_later) {
  Begun begun;
  for (const auto& rank : run.ranks) {
    std::optional<int> first;
    for (const auto& record : rank.records)
      if (const auto* is = digests_in(record, "begun"); is && is->list->of == kNoOptimizer) {
        if (!first) first = record.at.step;
        for (size_t i = 0; i < is->values.size() && (!only_later || record.at.step > *first); ++i)
          begun[is->list->tensors[i].name].push_back(is->values[i].bits);
      }
  }
  return begun;
}

bool are_alike(const std::vector<uint64_t>& bits, const RecordedRun& run) {
  return bits.size() == run.ranks.size() &&
         std::ranges::all_of(bits, [&](uint64_t each) { return each == bits.front(); });
}

// How often the rank had changed such parameters as it reached further ones, each time.
std::vector<size_t> changes_before_further(const Rank& rank) {
  std::vector<size_t> before;
  size_t changes = 0;
  for (const auto& record : rank.records) {
    const auto* begun = digests_in(record, "begun");
    const auto* changed = digests_in(record, "parameters");
    if (begun && begun->list->of == kNoOptimizer) before.push_back(changes);
    if (changed && changed->list->of == kNoOptimizer) ++changes;
  }
  return before;
}

// True if ranks reach further parameters at other times, as one does that draws a branch: which is
// which on another rank shows nowhere.
bool reach_at_other_times(const RecordedRun& run) {
  const auto first = changes_before_further(run.ranks.front());
  return std::ranges::any_of(
      run.ranks, [&](const Rank& rank) { return changes_before_further(rank) != first; });
}

// True if the ranks end with the same tensors in other orders, or have reached others.
bool order_is_unknown(const RecordedRun& run, const std::vector<Row>& rows) {
  const bool is_alone =
      std::ranges::all_of(rows, [](const Row& row) { return row.of == kNoOptimizer; });
  if (is_alone && reach_at_other_times(run)) return true;
  if (is_alone)
    for (const auto& [name, bits] : begun_in(run, /*only_later=*/true))
      if (!are_alike(bits, run)) return true;
  const auto last = std::find_if(rows.rbegin(), rows.rend(), [](const Row& row) {
    return row.of == kNoOptimizer && row.is_whole();
  });
  if (last == rows.rend() || all_hold_the_same(last->by_rank)) return false;
  return std::any_of(last->by_rank.begin(), last->by_rank.end(), [&](const Digests* is) {
    return are_in_other_orders(*last->by_rank.front(), *is);
  });
}

}  // namespace

std::vector<Row> without_unknown_order(const RecordedRun& run, std::vector<Row> rows) {
  if (order_is_unknown(run, rows))
    std::erase_if(rows, [](const Row& row) { return row.of == kNoOptimizer; });
  return rows;
}

bool are_by_hand_beside(const Row& row, const std::vector<Row>& rows) {
  return row.of == kNoOptimizer &&
         std::ranges::any_of(rows, [](const Row& is) { return is.of != kNoOptimizer; });
}

bool end_alike_by_hand(const RecordedRun& run) {
  const auto rows = rows_of(run, "ended");
  return std::ranges::any_of(rows, [](const Row& row) {
    return row.of == kNoOptimizer && row.is_whole() && !difference_in(row, "");
  });
}

std::optional<Finding> began_unlike(const RecordedRun& run, const Row& row) {
  auto begun = begun_in(run, /*only_later=*/false);
  for (const auto& name : unlike_the_first(row))
    if (are_alike(begun[name], run)) return {};
  return Finding{
      "", "made_on_each_rank", place_of(row),
      "parameters that the program changes itself began unlike on the ranks, as codes of each "
      "rank's samples do: not compared. Where they are part of the model, seed them alike, or "
      "broadcast them, and average their gradients"};
}

bool updates_by_itself(const RecordedRun& run) {
  const auto all = rows_of(run, "parameters");
  return std::any_of(all.begin(), all.end(), [](auto& is) { return is.at.phase == "forward"; });
}

std::string why_not_by_hand(const RecordedRun& run) {
  if (order_is_unknown(run, rows_of(run, "parameters")))
    return "the program changes parameters itself, and the ranks' backwards reach them in other "
           "orders: which is which on another rank is not known";
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, "changed by hand"))
        return "the program changes tensors itself that are no parameters of a module: make them "
               "nn.Parameter, and they are compared";
  return "";
}

namespace {

using Held = std::vector<const Digests*>;

// Lists the rank's records of such parameters, in order.
Held held_by_hand(const Rank& rank, std::optional<Moment>& last) {
  Held held;
  for (const auto& record : rank.records)
    for (const char* role : {"parameters", "ended"})
      if (const auto* is = digests_in(record, role); is && is->list->of == kNoOptimizer) {
        held.push_back(is);
        last = record.at;
      }
  return held;
}

// True if a step changes such parameters between its backwards, for a task that a rank then leaves.
bool trains_within_steps(const RecordedRun& run) {
  return std::ranges::any_of(run.ranks, [](const Rank& rank) {
    return std::ranges::any_of(rank.records, [](const Record& record) {
      return fact_in(record, "trained within a step") != nullptr;
    });
  });
}

// The `number`-th that each rank recorded.
Held numbered(const std::vector<Held>& ranks, size_t number) {
  Held held;
  for (const auto& rank : ranks) held.push_back(rank[number]);
  return held;
}

// True if all ranks' backwards reach as many such parameters.
bool reach_the_same(const RecordedRun& run) {
  const auto count = [](const Rank& rank) {
    size_t tensors = 0;
    for (const auto& record : rank.records)
      if (const auto* is = digests_in(record, "begun"); is && is->list->of == kNoOptimizer)
        tensors += is->values.size();
    return tensors;
  };
  const auto first = count(run.ranks.front());
  return std::ranges::all_of(run.ranks, [&](const Rank& rank) { return count(rank) == first; });
}

Found found(const char* pattern, std::string what, const char* cause, const Moment& last) {
  return {{"", pattern, "the end of the run", std::move(what), {Cause{cause}}}, last};
}

Found updated_on_some(const std::vector<Held>& ranks, const Moment& last) {
  std::vector<std::string> changes;
  for (const auto& rank : ranks) changes.push_back(counted(rank.size(), "change"));
  return found("updated_on_some_ranks",
               "the program changed parameters that no wrapper and no optimizer has more often on "
               "some ranks than on others, and they end unlike: " +
                   values_text(changes),
               "an update under a condition that differs by rank, its own loss say", last);
}

}  // namespace

std::optional<Found> ended_unlike(const RecordedRun& run) {
  constexpr size_t kAlikeLeast = 2;
  if (!all_returned(run) || trains_within_steps(run) ||
      order_is_unknown(run, rows_of(run, "parameters")))
    return {};
  std::vector<Held> ranks;
  std::optional<Moment> last;
  for (const auto& rank : run.ranks) ranks.push_back(held_by_hand(rank, last));
  const auto [least, most] =
      std::ranges::minmax_element(ranks, {}, [](const Held& held) { return held.size(); });
  const bool is_last_alone = least->size() == most->size();
  const size_t alike = least->size() - (is_last_alone && !least->empty() ? 1 : 0);
  const bool any_never = least->empty() && most->size() >= kAlikeLeast && reach_the_same(run);
  if (any_never) return updated_on_some(ranks, *last);
  if (alike < kAlikeLeast) return {};
  for (size_t number = 0; number < alike; ++number)
    if (!all_hold_the_same(numbered(ranks, number))) return {};
  Held ends;
  for (const auto& rank : ranks) {
    ends.push_back(rank.back());
    if (rank.back()->list->tensors != ranks.front().back()->list->tensors) return {};
  }
  if (all_hold_the_same(ends)) return {};
  if (!is_last_alone) return updated_on_some(ranks, *last);
  return found("last_update_alone",
               "parameters that no wrapper and no optimizer has are the same on all ranks up to "
               "the last update of the program, and differ behind it",
               "the last update takes gradients that nothing averaged: average them in each step, "
               "the last one of an epoch too",
               *last);
}

}  // namespace lockstep::recorded
