// Parameters that programs update themselves, without an optimizer.
#pragma once

#include "harness/invariants/rows.h"

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::recorded {

// The owner, in a record, of parameters that a program changes itself.
inline constexpr std::string_view kNoOptimizer = "no optimizer";

// The rows but for those of parameters that a program changes itself, if the ranks reached them in
// other orders: which is which on another rank is not known then.
std::vector<Row> without_unknown_order(const RecordedRun& run, std::vector<Row> rows);

// True of a row of such parameters, beside those of an optimizer in other ones.
bool are_by_hand_beside(const Row& row, const std::vector<Row>& rows);

// True if the ranks end with the same of such parameters, beside those of an optimizer.
bool end_alike_by_hand(const RecordedRun& run);

// A remark of a row of such parameters if the ranks began unlike with all in which they differ.
std::optional<Finding> began_unlike(const RecordedRun& run, const Row& row);

// True if a rank recorded parameters that changed by no update.
bool updates_by_itself(const RecordedRun& run);

// True if the ranks end with the same such tensors in other orders, or have reached others, or the
// same at other times: which is which on another rank shows nowhere.
bool order_is_unknown(const RecordedRun& run);

// Why what a program updates itself is not compared; empty where it is, or there is nothing.
std::string why_not_by_hand(const RecordedRun& run);

}  // namespace lockstep::recorded
