// Finds what each rank trains anew between updates of the model that all train: perturbations of
// its batch, or what an optimizer learns on.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <set>
#include <string>

namespace lockstep::recorded {

// The optimizers that update tensors of no wrapper, which begin each of these trainings with values
// that all ranks have and none of them left; the ranks exchange none of them.
std::set<std::string> trained_anew(const RecordedRun& run);

}  // namespace lockstep::recorded
