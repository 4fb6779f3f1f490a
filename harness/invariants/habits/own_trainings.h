// Leaves out what one rank trains alone beside the model that all train, a probe or a temperature,
// and what each rank trains anew between its updates.
#pragma once

#include "harness/invariants/view.h"

#include <optional>

namespace lockstep::recorded {

// The run without the updates of such optimizers, with a remark for each rank that has some: those
// that follow backwards of no wrapped model, of tensors that no wrapper has, where another
// rank trains no such tensors, and those of trained_anew(). Steps and optimizers are numbered as if
// there were none. Nothing where there are none.
std::optional<View> without_own_trainings(const RecordedRun& run);

}  // namespace lockstep::recorded
