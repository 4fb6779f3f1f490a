// Runs in which one rank alone updates, and sends what it updates to the others.
#pragma once

#include "harness/invariants/view.h"

#include <optional>

namespace lockstep::recorded {

// The run with the steps of the ranks that never update beside those of the one that does: each of
// their backwards is in the step in which that one made the backward of the same number. Nothing
// where the updates are not central.
std::optional<View> with_central_updates_aligned(const RecordedRun& run);

}  // namespace lockstep::recorded
