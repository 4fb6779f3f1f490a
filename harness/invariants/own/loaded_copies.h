// Models that nothing trains, which the program loads values into again and again.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// A remark where the ranks load such models at other steps: a target network that follows the model
// sooner on one rank than on another, say.
Findings loaded_at_other_steps(const RecordedRun& run);

}  // namespace lockstep::recorded
