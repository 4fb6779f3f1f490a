// Schedulers that each rank asks with a metric of its own.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// A finding where ReduceLROnPlateau gets a number of its own on each rank, time and again: the
// ranks' learning rates are then alike by luck.
std::optional<Found> own_metrics(const RecordedRun& run);

}  // namespace lockstep::recorded
