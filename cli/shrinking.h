// How `run` and `replay` shrink failing cases.
#pragma once

#include "cli/known.h"
#include "harness/campaign/shrink_failure.h"

namespace lockstep::cli {

// The options for shrinking failing cases, as typed: the seconds for each signature, empty for the
// default. `launched` are the only worlds of their run.
ShrinkOptions shrink_options(const std::string& seconds, const Known& known, bool launched);

}  // namespace lockstep::cli
