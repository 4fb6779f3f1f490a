// Parameters with which ranks evaluate.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// Ranks that evaluate one model through its wrapper with other parameters each: a mistake, or a
// remark where the next update finds them the same again.
struct EvaluatedUnlike {
  std::optional<Found> found;
  std::optional<Finding> remark;
};
EvaluatedUnlike evaluated_unlike(const RecordedRun& run);

}  // namespace lockstep::recorded
