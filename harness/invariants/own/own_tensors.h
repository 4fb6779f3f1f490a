// Tensors that each rank has of its own on purpose, beside a model that all ranks train: experts,
// or parts of a table.
#pragma once

#include "harness/invariants/invariants.h"

#include <optional>

namespace lockstep::recorded {

// The run without such tensors, whose names are then in facts "own tensors": an optimizer updates
// them, no wrapper has them, the ranks began with other values of them, and send each other what is
// for them, by all-to-all, step by step. Nothing where there are none.
std::optional<RecordedRun> without_own_tensors(const RecordedRun& run);

// A remark for each optimizer of such tensors.
Findings own_tensors_in(const RecordedRun& run);

}  // namespace lockstep::recorded
