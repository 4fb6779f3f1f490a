// A run beside an earlier run of the same training, which it resumes.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

struct InvariantAfter {
  std::string_view name, rule;
  Judgement (*judge)(const RecordedRun& run, const RecordedRun& before);
};
std::span<const InvariantAfter> invariants_after();

Judgement order_continues(const RecordedRun& run, const RecordedRun& before);
Judgement optimizers_continue(const RecordedRun& run, const RecordedRun& before);

}  // namespace lockstep::recorded
