// Models that nothing trains, which the program loads values into again and again.
#pragma once

#include "harness/invariants/rows.h"

#include <optional>
#include <string>

namespace lockstep::recorded {

// A remark where the ranks load such models at other steps: a target network that follows the model
// sooner on one rank than on another, say.
Findings loaded_at_other_steps(const RecordedRun& run);

// A remark on a copy that all ranks made and that the program keeps changing on some of them
// alone, as an average of weights that rank 0 keeps.
Findings changed_on_some_ranks_alone(const RecordedRun& run);

// The type of a model that no rank copied or loaded values into; empty where one trains it later.
std::optional<std::string> made_by_each(const RecordedRun& run, const std::string& of);

}  // namespace lockstep::recorded
