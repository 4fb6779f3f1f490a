// A run beside an earlier run of the same training, which it resumes.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

Judgement order_continues(const RecordedRun& run, const RecordedRun& before);
Judgement optimizers_continue(const RecordedRun& run, const RecordedRun& before);

}  // namespace lockstep::recorded
