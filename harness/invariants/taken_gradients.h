// Gradients as an update took them, beside those that the backward before it had left.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// The factor by which all tensors of an update are larger than after the backward before; 0 where
// they have no such factor.
double factor_between(const Digests& before, const Digests& after);

// Adds to a finding what each rank did to its own gradients before the update that left a model
// unlike, the row's; nothing where the update took those that the ranks had averaged.
void add_how_gradients_parted(const RecordedRun& run, const Row& row, Finding& finding);

}  // namespace lockstep::recorded
