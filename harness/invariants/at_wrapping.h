// Parameters that DistributedDataParallel was not built from.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// Sentences that name the tensors of a row that no wrapper keeps the same: those that its model did
// not have, or had frozen, as it was wrapped, that the wrapper ignores, or that no wrapper and no
// optimizer has. Empty where the wrapper knows all.
Details unknown_to_the_wrapper(const RecordedRun& run, const Row& row);

// A remark of a row if wrappers ignore all tensors in which the ranks differ in it, and forwards
// exchange what they compute: they are parts of a table, say.
std::optional<Finding> parts_that_the_wrapper_ignores(const RecordedRun& run, const Row& row);

// A sentence that names the parameters that wrappers ignore as the program wants; empty: none.
Details ignored_by_the_wrapper(const Rank& rank);

// A sentence that names the parameters that a model, or any where `model` is empty, has in place of
// those that it had as it was wrapped.
Details replaced_after_wrapping(const Rank& rank, const std::string& model);

}  // namespace lockstep::recorded
