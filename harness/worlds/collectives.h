// The collectives of a program, beside those of its training.
#pragma once

#include "harness/worlds/options.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace lockstep {

struct ProgramCollective {
  CollectiveKind kind;
  at::Tensor tensor;  // that of this rank; what is received is written into it, or returned
  ReductionKind reduction = ReductionKind::sum;
  int root = 0;                   // the destination or the source
  std::vector<at::Tensor> parts;  // of scatter, on its source: one for each rank
  // Not empty: the call is one of these ranks alone, over a group that is made for it and numbers
  // them in ascending order, whatever the order is here. `root` and `parts` are the group's.
  std::vector<int> ranks = {};
  // So many groups of the same ranks are made before that one, and live beside it.
  int groups_before = 0;
  std::optional<int64_t> timeout_ms = {};  // of the call; nothing: the group's
  // Runs just before the call, after a barrier of the same ranks on the same group; nothing: there
  // is none.
  std::function<void()> beforehand = {};
};

}  // namespace lockstep
