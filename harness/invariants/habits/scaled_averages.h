// Averages of parameters between local updates that are no averages.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// Parameters that the program makes the same between updates, and that are then the number of
// ranks times what the ranks had, or that part of it, each time: a sum, or an average divided once
// more. By norms: no average of tensors is larger than the largest of them. Of the first time.
std::optional<Found> scaled_average(const RecordedRun& run);

}  // namespace lockstep::recorded
