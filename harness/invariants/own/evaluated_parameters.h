// Parameters with which ranks evaluate.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// Ranks that evaluate one model through its wrapper with other parameters each: a finding, or a
// remark where the next update finds them the same again. `at` is when.
struct EvaluatedUnlike {
  std::optional<Finding> finding, remark;
  Moment at;
};
EvaluatedUnlike evaluated_unlike(const RecordedRun& run);

}  // namespace lockstep::recorded
