// Joins of ranks with uneven inputs: until one ends, its ranks may have made unequally many
// updates.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <optional>

namespace lockstep::recorded {

// The run with the ranks' steps beside each other, where a join gave them unequally many updates:
// what a rank recorded after the join moves by the updates that it shadowed (and by one more where
// ranks have unequally many gradients left over from no update), and the collectives of the join
// are left out from the step at which its first rank had no more inputs, since shadows are no
// steps. Nothing where all ranks made equally many. A join that some rank did not end stays as it
// is, with all that follows.
std::optional<RecordedRun> with_joins_aligned(const RecordedRun& run);

}  // namespace lockstep::recorded
