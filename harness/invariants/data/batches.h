// Judges whether ranks train on the same batches, whatever feeds them.
#pragma once

#include "harness/invariants/invariants.h"
#include "harness/recorded/passes.h"

namespace lockstep::recorded {

// Two ranks that drew the same samples in the same batch, or were handed the same ones.
struct SameBatches {
  std::optional<Finding> finding;
  size_t batches = 0;  // that were compared
};
SameBatches same_batches(const PassRow& row);

// True if the forwards of the ranks get parts of the batches that their loaders hand out, and not
// the same ones: the program divides each batch itself.
bool divides_batches(const RecordedRun& run);

// A sentence for each rank on the samples that it drew.
Details draws_of(const PassRow& row);

// Samples that no rank drew in any of several whole passes.
std::optional<Finding> never_drawn(const std::vector<PassRow>& rows);

// Workers of one rank's loader of a stream that each deal the whole of the rank's part.
std::optional<Finding> repeated_by_workers(const PassRow& row);

// The losses of all ranks were equal, bit for bit, in every backward that no collective preceded.
struct SameLosses {
  std::optional<Finding> finding;
  Moment at;
  size_t backwards = 0;  // that were compared
};
SameLosses same_losses(const RecordedRun& run);

}  // namespace lockstep::recorded
