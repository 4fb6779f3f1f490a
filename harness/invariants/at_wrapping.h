// Parameters that DistributedDataParallel was not built from.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// Lines that name the tensors of a row that its model did not have, or had frozen, as it was
// wrapped, so that nothing averages them; empty where the wrapper knows all.
std::string unknown_to_the_wrapper(const RecordedRun& run, const Row& row);

}  // namespace lockstep::recorded
