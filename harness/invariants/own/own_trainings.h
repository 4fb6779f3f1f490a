// Leaves out what one rank trains alone beside the model that all train: a probe, or a temperature.
#pragma once

#include "harness/invariants/view.h"

#include <optional>

namespace lockstep::recorded {

// The run without the updates of such optimizers, with a remark for each rank that has some: those
// that follow backwards of no wrapped model, of tensors that no wrapper has, where another
// rank trains no such tensors. Steps and optimizers are numbered as if there were none. Nothing
// where there are none.
std::optional<View> without_own_trainings(const RecordedRun& run);

}  // namespace lockstep::recorded
