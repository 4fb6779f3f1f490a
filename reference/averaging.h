// When ranks average their models and with whom, and the average itself, from the definition.
//
// Source: torch.distributed.algorithms.model_averaging, as documented.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::reference {

// Groups of `size` consecutive ranks average every `period` steps.
struct AveragingLevel {
  int64_t period = 1;
  int size = 1;
};

struct AveragingRule {
  std::vector<AveragingLevel> levels;  // ascending
  int64_t warmup_steps = 0;
  bool warmup_is_subtracted = false;  // before a period is counted
};

// The size of the groups that average in this step; 1: none.
int averaging_group_size(const AveragingRule& rule, int64_t step);

// Each rank's values become the average over its group of `size` consecutive ranks, which divides
// the number of ranks.
std::vector<at::Tensor> averaged_in_groups(const std::vector<at::Tensor>& by_rank, int size);

// True if each of these values, divided by `size`, is a whole number, and every sum of some of
// these quotients has at most `bits` bits: then no order of sums rounds.
bool averages_without_rounding(const std::vector<at::Tensor>& by_rank, int size, int bits);

// The rank that keeps the state of each parameter: group by group, the largest first, of equal ones
// the first, to the rank with the fewest bytes, of those the lowest.
std::vector<std::vector<int>> owners(const std::vector<std::vector<int64_t>>& bytes_by_group,
                                     int world_size);

}  // namespace lockstep::reference
