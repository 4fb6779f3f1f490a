// A recorded run as its ranks are compared.
#pragma once

#include "harness/recorded/recorded_run.h"
#include "harness/verdict/verdict.h"

namespace lockstep::recorded {

// The run with the ranks' steps beside each other, or without what is a rank's own. `remarks` say
// what is left out.
struct View {
  RecordedRun run;
  Findings remarks = {};
};

}  // namespace lockstep::recorded
