// Gradients that each rank clips by the norm of its own part of them.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// The first update that took gradients of a divided model, or by an optimizer that divides its
// state, to which each rank had applied a factor of its own; nothing where there is none.
std::optional<Found> clipped_by_part(const RecordedRun& run);

}  // namespace lockstep::recorded
