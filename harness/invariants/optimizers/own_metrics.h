// Schedulers that each rank asks with a metric of its own.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// A remark where ReduceLROnPlateau gets a number of its own on each rank, time and again: the
// ranks' learning rates are then alike by luck, or because the program makes them so.
std::optional<Finding> own_metrics(const RecordedRun& run);

}  // namespace lockstep::recorded
