// The random numbers of loaders' worker processes.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// Remarks on loaders whose workers draw the same numbers on all ranks, or in each pass.
Findings worker_streams(const RecordedRun& run);

}  // namespace lockstep::recorded
