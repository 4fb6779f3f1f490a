// How parameters end that a program updates itself.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// A finding where ranks that held the same parameters, without a wrapper and an optimizer, end with
// others: some made further updates, or the last one took each rank's own gradients, which no later
// backward shows.
std::optional<Found> ended_unlike(const RecordedRun& run);

}  // namespace lockstep::recorded
