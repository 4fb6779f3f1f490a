// Reduces the tensors of several ranks to one, in an order that the case decides.
#pragma once

#include "harness/base/case.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <vector>

namespace lockstep::sim {

// The order in which the members' tensors are reduced; docs/simulation.md draws each.
//   flat      x0 + x1 + x2 + ...
//   ring      as Gloo's ring: each part of the tensor begins at another member
//   tree      neighbours first: (x0 + x1) + (x2 + x3)
//   permuted  in an order drawn from `seed`
struct ReductionOrder {
  ReductionShape shape = ReductionShape::flat;
  uint64_t seed = 0;
};

// Throws c10::Error for an undefined tensor, and for one with gaps or overlaps.
void require_sendable(const at::Tensor& tensor);

// The same memory as a one-dimensional tensor, without autograd history. Throws as
// require_sendable.
at::Tensor flat(const at::Tensor& tensor);

// The reduction of `of_members`, one-dimensional. Throws c10::Error for reductions that do not
// exist.
at::Tensor reduced(const std::vector<at::Tensor>& of_members, c10d::ReduceOp::RedOpType reduction,
                   const ReductionOrder& order);

}  // namespace lockstep::sim
