#include "harness/invariants/habits/updates_by_hand.h"

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
using BitsByName = std::map<std::string, std::vector<uint64_t>>;

BitsByName begun_in(const RecordedRun& run, bool only_later) {
  BitsByName begun;
  for (const auto& rank : run.ranks) {
    std::optional<int> first;
    for (const auto& record : rank.records)
      if (const auto* is = digests_in(record, role::kBegun); is && is->list->of == kNoOptimizer) {
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
    const auto* begun = digests_in(record, role::kBegun);
    const auto* changed = digests_in(record, role::kParameters);
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

}  // namespace

bool order_is_unknown(const RecordedRun& run) {
  const auto rows = rows_of(run, role::kParameters);
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

std::vector<Row> without_unknown_order(const RecordedRun& run, std::vector<Row> rows) {
  const auto is_by_hand = [](const Row& row) { return row.of == kNoOptimizer; };
  if (std::ranges::any_of(rows, is_by_hand) && order_is_unknown(run))
    std::erase_if(rows, is_by_hand);
  return rows;
}

bool are_by_hand_beside(const Row& row, const std::vector<Row>& rows) {
  return row.of == kNoOptimizer &&
         std::ranges::any_of(rows, [](const Row& is) { return is.of != kNoOptimizer; });
}

bool end_alike_by_hand(const RecordedRun& run) {
  const auto rows = rows_of(run, role::kEnded);
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
  const auto all = rows_of(run, role::kParameters);
  return std::any_of(all.begin(), all.end(),
                     [](auto& is) { return is.at.phase == phase::kForward; });
}

std::string why_not_by_hand(const RecordedRun& run) {
  if (order_is_unknown(run))
    return "the program changes parameters itself, and the ranks' backwards reach them in other "
           "orders: which is which on another rank is not known";
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kChangedByHand))
        return "the program changes tensors itself that are no parameters of a module: make them "
               "nn.Parameter, and they are compared";
  return "";
}

}  // namespace lockstep::recorded
