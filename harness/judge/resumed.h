// A run beside an earlier run of the same training, which it resumes.
#pragma once

#include "harness/judge/claims.h"

namespace lockstep::recorded {

struct ClaimAfter {
  std::string_view name, rule;
  Judgement (*judge)(const RecordedRun& run, const RecordedRun& before);
};
std::span<const ClaimAfter> claims_after();

Judgement order_continues(const RecordedRun& run, const RecordedRun& before);

}  // namespace lockstep::recorded
