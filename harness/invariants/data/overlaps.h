// Ranks that train on each other's samples, though each draws some of its own.
#pragma once

#include "harness/invariants/invariants.h"
#include "harness/recorded/passes.h"

namespace lockstep::recorded {

// Ranks that drew each other's samples of one dataset, from samplers that do not know the ranks.
struct DrawnByOthers {
  Finding finding;
  Moment at;
  bool is_split = false;  // together they drew as many as the dataset has, by the program's sampler
};
std::optional<DrawnByOthers> overlapping_draws(const std::vector<PassRow>& rows);

// True unless a sampler deals each sample several times: then ranks that lie side by side get the
// same ones, and all of them do only if the number of ranks divides that of the times.
bool deals_once(const PassRow& row);

// True for a sampler that repeats samples on purpose: one that says so, or one of the program's own
// from which a rank draws some samples several times, as it does where rare ones are drawn more
// often.
bool repeats_on_purpose(const PassRow& row);

// A finding where a sampler that splits deals each sample several times, and each rank an order of
// its own.
std::optional<Finding> repeats_own_orders(const PassRow& row);

// Ranks whose forwards got samples of each other's, though no loader handed them out: batches that
// the program cut by hand.
struct SharedInputs {
  std::optional<Finding> finding;
  bool is_split = false;  // together they took as many as all have, in each pass
};
SharedInputs shared_inputs(const RecordedRun& run);

// Ranks that were handed samples of each other's in a whole pass, which no sampler split: each has
// a dataset of its own, or a stream.
std::optional<Finding> shared_samples(const PassRow& row);

}  // namespace lockstep::recorded
