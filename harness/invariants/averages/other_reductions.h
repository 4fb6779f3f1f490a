// Updates from gradients that all ranks share and that are no average of what they computed.
#pragma once

#include "harness/invariants/averages/averaged.h"
#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// A finding where the ranks took one rank's gradient, or the largest, the least or the median of
// theirs, element by element.
std::optional<Finding> other_reduction(const AveragedByRank& ranks);

}  // namespace lockstep::recorded
