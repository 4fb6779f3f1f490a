// Tensors that each rank has of its own on purpose, beside a model that all ranks train: experts,
// or parts of a table.
#pragma once

#include "harness/invariants/view.h"

#include <optional>

namespace lockstep::recorded {

// The run without such tensors, with a remark for each of their optimizers: it updates them, no
// wrapper has them, the ranks began with other values of them, and send each other what is for
// them, by all-to-all, step by step; or they meet what a function of the program gathered, and one
// reduces what comes of them. Nothing where there are none.
std::optional<View> without_own_tensors(const RecordedRun& run);

}  // namespace lockstep::recorded
