// The claims' judgements of a recorded run, as the results that reports render.
#pragma once

#include "harness/core/result.h"
#include "harness/judge/against.h"

namespace lockstep::recorded {

// One result a claim, each of one case: the run. A claim that the run gives nothing to judge is a
// skip with its reason. Where there is a run of one process, its claims come last. The caller fills
// in the name and version of its program, and the cores.
Run judged(const RecordedRun& recorded, const OneProcess* one = nullptr);

}  // namespace lockstep::recorded
