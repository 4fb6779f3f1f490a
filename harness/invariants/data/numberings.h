// Ranks on which the numbers of a dataset mean other samples.
#pragma once

#include "harness/invariants/rows.h"
#include "harness/recorded/passes.h"

namespace lockstep::recorded {

// A finding where ranks hold the same files, or what else a dataset lists of its samples, in other
// orders, while one sampler splits it by number; or give the same names, of classes say, the same
// numbers in another way.
std::optional<Finding> other_numbering(const PassRow& row);

// A finding where ranks were handed the same samples under other numbers, and none under the same.
std::optional<Finding> other_numbers(const std::vector<PassRow>& rows);

}  // namespace lockstep::recorded
