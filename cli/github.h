// A run inside GitHub Actions.
#pragma once

#include "harness/core/result.h"

namespace lockstep::cli {

// True in a step of a workflow, by what its runner sets in the environment.
bool on_github();

// Prints the annotations to stdout, where GitHub looks for them, and appends the step's summary to
// the file that GITHUB_STEP_SUMMARY names. Where that cannot be written it says so on stderr and
// leaves the run's exit status alone.
void tell_github(const Run& run);

}  // namespace lockstep::cli
