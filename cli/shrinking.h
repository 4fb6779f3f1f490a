// How `run` and `replay` shrink failing cases.
#pragma once

#include "cli/known.h"
#include "harness/campaign/shrink_failure.h"

namespace lockstep::cli {

// The options for shrinking failing cases, with the time for each signature, where it is given.
// `launched` are the only worlds of their run.
ShrinkOptions shrink_options(std::optional<std::chrono::milliseconds> time, const Known& known,
                             bool launched);

}  // namespace lockstep::cli
