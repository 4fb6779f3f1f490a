// Gradients as an update took them, beside those that the backward before it had left.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// The factor by which all tensors of an update are larger than after the backward before; 0 where
// they have no such factor.
double factor_between(const Digests& before, const Digests& after);

// The factor by which an update of the step took gradients of a model that are larger than those
// that the backward before it had left, on all ranks; 1 where it took those, 0 where there is none.
double factor_taken(const RecordedRun& run, const std::string& of, int step);

// Adds to a finding what each rank did to its own gradients before the update that left a model
// unlike, the row's; nothing where the update took those that the ranks had averaged.
void add_how_gradients_parted(const RecordedRun& run, const Row& row, Finding& finding);

}  // namespace lockstep::recorded
