// Trainings of several ranks that are no data-parallel ones, to which its claims do not apply.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// Why the run is none; null where it may be one. Nothing is wrapped, and the ranks, which began
// with parameters of their own, send tensors to one another as stages of a pipeline do; or
// their losses pass through collectives of what they compute from the same batches, as parts of
// divided layers do; or they train parameters of their own and mix them by exchanges that never
// make them equal, as elastic averaging and gossip do; or they update in turns, or train a
// population; or each updates a part of a model that no recorder knows, and sends it.
const char* not_data_parallel(const RecordedRun& run);

// True in the second case: the ranks then take the same batches.
bool trains_in_parts(const RecordedRun& run);

// True if the loss of each rank passes through a collective in some forward.
bool computes_through_collectives(const RecordedRun& run);

}  // namespace lockstep::recorded
