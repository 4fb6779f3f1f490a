#include "harness/invariants/own/updates_by_hand.h"

#include "harness/invariants/local_updates.h"

#include <algorithm>
#include <set>

namespace lockstep::recorded {

namespace {

std::multiset<uint64_t> bits_of(const Digests& digests) {
  std::multiset<uint64_t> bits;
  for (const auto& value : digests.values) bits.insert(value.bits);
  return bits;
}

// True if all ranks end with the same tensors, and in other orders.
bool order_is_unknown(const std::vector<Row>& rows) {
  const auto last = std::find_if(rows.rbegin(), rows.rend(), [](const Row& row) {
    return row.of == kNoOptimizer && row.is_whole();
  });
  if (last == rows.rend() || all_hold_the_same(last->by_rank)) return false;
  const auto first = bits_of(*last->by_rank.front());
  return std::all_of(last->by_rank.begin(), last->by_rank.end(),
                     [&](const Digests* is) { return bits_of(*is) == first; });
}

}  // namespace

std::vector<Row> without_unknown_order(std::vector<Row> rows) {
  if (order_is_unknown(rows))
    std::erase_if(rows, [](const Row& row) { return row.of == kNoOptimizer; });
  return rows;
}

bool updates_by_itself(const RecordedRun& run) {
  const auto all = rows_of(run, "parameters");
  return std::any_of(all.begin(), all.end(), [](auto& is) { return is.at.phase == "forward"; });
}

std::string why_not_by_hand(const RecordedRun& run) {
  if (order_is_unknown(rows_of(run, "parameters")))
    return "the program changes parameters itself, and the ranks' backwards reach them in other "
           "orders: which is which on another rank is not known";
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, "changed by hand"))
        return "the program changes tensors itself that are no parameters of a module: make them "
               "nn.Parameter, and they are compared";
  return "";
}

}  // namespace lockstep::recorded
