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
std::vector<Row> without_unknown_order(std::vector<Row> rows);

// True if a rank recorded parameters that changed by no update.
bool updates_by_itself(const RecordedRun& run);

// Why what a program updates itself is not compared; empty where it is, or there is nothing.
std::string why_not_by_hand(const RecordedRun& run);

}  // namespace lockstep::recorded
