// The whole batch of a Layer case, and its splits over the ranks.
#pragma once

#include "scenarios/cases/layer.h"

#include <vector>

namespace lockstep::scenarios::sync_batch_norm {

// Samples [begin, end) of the whole batch.
struct Samples {
  int64_t begin = 0, end = 0;
};

struct Split {
  const char* name;              // also the name of the phase
  std::vector<int> group;        // the ranks that take part
  std::vector<Samples> by_rank;  // of the world; none where a rank does not take part
};

// The first is the case's own, with which the others are compared: rotated by a rank, even, all on
// one rank, and in a group of all ranks but the first.
std::vector<Split> splits_of(const Layer& c);

// The whole batch: inputs and their cotangents, concatenated by rank, in the case's dtype.
struct Whole {
  at::Tensor input, cotangent;
};
Whole whole_of(const Layer& c, int step);

at::Tensor part_of(const at::Tensor& whole, const Samples& samples);

}  // namespace lockstep::scenarios::sync_batch_norm
