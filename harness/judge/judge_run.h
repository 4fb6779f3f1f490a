// The claims' judgements of a recorded run, as the results that reports render.
#pragma once

#include "harness/core/result.h"
#include "harness/judge/recorded_run.h"

namespace lockstep::recorded {

// One result a claim, each of one case: the run. A claim that the run gives nothing to judge is a
// skip with its reason. The caller fills in the name and version of its program, and the cores.
Run judged(const RecordedRun& recorded);

}  // namespace lockstep::recorded
