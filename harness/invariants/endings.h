// How the ranks of a recorded run ended, for the invariants that tell it.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

size_t updates_of(const Rank& rank);
size_t issued_by(const Rank& rank);  // collectives
bool ended_badly(const Rank& rank);  // with an exception, a status or a signal
// It ended badly since a peer did not answer, in a collective that was recorded or another one.
bool gave_up_waiting(const Rank& rank);
// False where a rank may have been stopped before it did what is missing.
bool all_returned(const RecordedRun& run);

std::string rank_text(const Rank& rank);

// Sentences that say how each rank ended.
Details how_ranks_ended(const RecordedRun& run);

}  // namespace lockstep::recorded
