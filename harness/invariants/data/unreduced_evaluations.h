// Evaluations that are split over the ranks and whose metrics no collective brings together.
#pragma once

#include "harness/invariants/invariants.h"
#include "harness/recorded/passes.h"

namespace lockstep::recorded {

// A remark where no evaluation that is split over the ranks is followed by a collective that
// reduces or gathers, or where one rank alone evaluates its part. `rows`: the evaluations of all
// ranks.
std::optional<Finding> evaluation_not_reduced(const RecordedRun& run, std::vector<PassRow> rows);

}  // namespace lockstep::recorded
