// Updates from averages of a wrapper that are divided by the number of ranks once more.
#pragma once

#include "harness/invariants/averages/averaged.h"
#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// A finding where the program divides gradients by hand behind the backward that averaged them, or
// divides the sum in its loss by the number of terms of all ranks, and does not multiply it.
std::optional<Found> divided_again(const RecordedRun& run, const AveragesOfRun& averages);

}  // namespace lockstep::recorded
