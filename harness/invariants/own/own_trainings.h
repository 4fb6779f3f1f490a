// Leaves out what one rank trains alone beside the model that all train: a probe, or a temperature.
#pragma once

#include "harness/invariants/invariants.h"

#include <optional>

namespace lockstep::recorded {

// The run without the updates of such optimizers, which are then in facts "own training": those of
// a rank that follow backwards of no wrapped model, of tensors that no wrapper has, where another
// rank trains no such tensors. Steps and optimizers are numbered as if there were none. Nothing
// where there are none.
std::optional<RecordedRun> without_own_trainings(const RecordedRun& run);

// A remark for each rank with such a training.
Findings own_trainings_in(const RecordedRun& run);

}  // namespace lockstep::recorded
