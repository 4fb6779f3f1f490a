// Programs that update parameters themselves, without an optimizer.
#pragma once

#include "harness/invariants/rows.h"

#include <string>

namespace lockstep::recorded {

// True if a rank recorded parameters that changed by no update.
bool updates_by_itself(const RecordedRun& run);

// Why what a program updates itself is not compared; empty where it is, or there is nothing.
std::string why_not_by_hand(const RecordedRun& run);

}  // namespace lockstep::recorded
