// Ranks whose training loaders deal unlike numbers of batches: the one that has none left leaves
// the others waiting.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// The cause and the cure, of the first pass that ended on one rank after fewer batches than
// another rank got in it; nothing where none did, or where a join is there for that.
Details uneven_batches(const RecordedRun& run);

}  // namespace lockstep::recorded
