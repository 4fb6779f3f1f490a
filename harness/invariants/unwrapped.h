// Parameters that are trained without a wrapper: the program's collectives average their gradients,
// or nothing does.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// A finding where nothing averages the gradients of what a rank trains without a wrapper.
std::optional<Finding> never_averaged(const RecordedRun& run);

// A finding where each rank wrapped its models for a group of itself alone, though the ranks train
// one model: they began with the same parameters, or a sampler splits data over them.
std::optional<Finding> group_of_one(const RecordedRun& run);

// True if all that is trained without a wrapper stays the same on ranks whose gradients or batches
// differ: collectives average it that no recorder sees.
bool averages_unseen(const RecordedRun& run);

// The elements of all tensors that the rank had.
int64_t elements_in(const Digests& digests);

// True if the rank has a model in a wrapper that averages its gradients.
bool wraps_a_model(const Rank& rank);

// True where one rank alone updates, and sends what it updates to all: a server of parameters.
bool updates_centrally(const RecordedRun& run);

// The most elements that the program's own collectives averaged in one step, of those that were
// issued in a phase; so far as is known.
int64_t elements_averaged(const Rank& rank, std::string_view phase = "");

}  // namespace lockstep::recorded
