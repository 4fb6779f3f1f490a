// The passes over datasets that a rank made.
#pragma once

#include "harness/judge/recorded_run.h"

#include <map>

namespace lockstep::recorded {

// One rank's pass over a dataset.
struct Pass {
  const Fact* is = nullptr;
  std::vector<int64_t> indices;
  std::vector<size_t> batch_ends;  // how many were drawn when each batch was
  bool is_exhausted = false;
  bool trains = false;  // a backward came while it was under way

  int64_t length() const { return is->whole("length").value_or(-1); }
  bool is_sharded() const { return is->whole("replicas").has_value(); }
};

using Passes = std::map<std::string, std::vector<Pass>>;  // by loader or sampler

Passes passes_of(const Rank& rank);

// A pass on all ranks. `number` counts those of its source from 0.
struct PassRow {
  std::string source;
  size_t number = 0;
  std::vector<Pass> by_rank;

  bool all(bool Pass::*member) const;
  bool is_sharded() const;
  std::string place() const { return "pass " + std::to_string(number) + " of " + source; }
};

std::vector<PassRow> pass_rows(const RecordedRun& run);

// The numbers of a list, and how many more: "3, 4, 9 and 2 more".
std::string listed(const std::vector<int64_t>& numbers);

}  // namespace lockstep::recorded
