// The passes over datasets that a rank made.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <map>

namespace lockstep::recorded {

// A batch that a loader handed to the program: a fingerprint of the batch, and of its first sample
// with its index, where a recorder could tell.
struct HandedBatch {
  std::string print, first_print;
  int64_t first_index = -1;
  size_t count = 0;                  // of its samples; 0 where it is unknown
  std::vector<std::string> samples;  // fingerprints of the first of them
};

// One rank's pass over a dataset.
struct Pass {
  const Fact* is = nullptr;
  std::vector<int64_t> indices;
  std::vector<size_t> batch_ends;  // how many were drawn when each batch was
  std::vector<HandedBatch> batches;
  bool is_exhausted = false;
  bool trains = false;        // a backward came while it was under way
  size_t begin = 0, end = 0;  // its first and last record, among the rank's
  Moment last;                // when it dealt last

  int64_t length() const { return is->whole("length").value_or(-1); }
  bool is_sharded() const { return is->whole("replicas").has_value(); }
  bool is_of_a_subset() const {
    return is->text("dataset") == "Subset" || !is->text("subset").empty();
  }
  // It came to its end, or drew as many samples or batches as its loader has.
  bool is_whole() const;
  // The batches that the program was handed; those that were drawn where no recorder saw that.
  size_t batch_count() const { return batches.empty() ? batch_ends.size() : batches.size(); }
  // The indices of one batch; empty where it has none.
  std::vector<int64_t> batch(size_t number) const;
};

using Passes = std::map<std::string, std::vector<Pass>>;  // by loader or sampler

Passes passes_of(const Rank& rank);

// A pass on all ranks. `number` counts those of its source from 0.
struct PassRow {
  std::string source;
  size_t number = 0;
  std::vector<Pass> by_rank;

  bool all(bool Pass::*member) const;
  bool all_whole() const;
  bool is_sharded() const;
  bool is_of_distributed_sampler() const;  // PyTorch's, and not one of the program's own
  size_t draws() const;                    // of all ranks
  std::string place() const { return "pass " + std::to_string(number) + " of " + source; }
};

std::vector<PassRow> pass_rows(const RecordedRun& run);

// True for a pass of training that a sampler shuffles and splits.
bool trains_shuffled(const PassRow& row);

// True if both passes are over one dataset, as far as fingerprints of it or of samples tell.
bool have_one_dataset(const Pass& a, const Pass& b);

}  // namespace lockstep::recorded
