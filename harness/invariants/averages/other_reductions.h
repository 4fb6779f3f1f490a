// Updates from gradients that all ranks share and that are no average of what they computed.
#pragma once

#include "harness/invariants/averages/averaged.h"
#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// A finding where the ranks took one rank's gradient, or the largest, the least or the median of
// theirs, element by element.
std::optional<Finding> other_reduction(const AveragedByRank& ranks);

// A finding where the ranks had computed the same gradients, value for value, before each average
// that the program took without a wrapper: all train on one batch.
std::optional<Finding> same_gradients(const std::vector<AveragedByRank>& all);

}  // namespace lockstep::recorded
