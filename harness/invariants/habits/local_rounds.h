// Trainings whose ranks make unlike numbers of updates between averages of their parameters, as
// FedAvg does with unequal parts of the data.
#pragma once

#include "harness/invariants/view.h"

#include <optional>

namespace lockstep::recorded {

// The run with as many updates on all ranks in each round between collectives of all ranks: a
// round's last updates are left out of ranks that make more, and later steps are numbered anew.
// Nothing where the numbers are alike, a rank updates nothing in a round, a rank makes more updates
// than another without more batches, or the parameters are not the same on all ranks after some
// average.
std::optional<View> with_rounds_aligned(const RecordedRun& run);

// True if no model is wrapped, and two ranks or more make no updates in some rounds, in which
// others do, and updates from gradients of their own in others: clients that take part in turns.
bool updates_in_turns(const RecordedRun& run);

}  // namespace lockstep::recorded
