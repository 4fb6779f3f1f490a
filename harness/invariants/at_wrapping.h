// Parameters that DistributedDataParallel was not built from.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// Sentences that name the tensors of a row that its model did not have, or had frozen, as it was
// wrapped, so that nothing averages them; empty where the wrapper knows all.
Details unknown_to_the_wrapper(const RecordedRun& run, const Row& row);

}  // namespace lockstep::recorded
