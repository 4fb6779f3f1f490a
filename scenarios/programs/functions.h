// Autograd functions as models have them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lockstep::scenarios::programs {

// The tensor, by a function whose gradient lies in memory with gaps.
at::Tensor passed_on(const at::Tensor& tensor);

// A number that `body` computes, once now and once more in backward, whose own backward pass runs
// inside the outer one: a checkpointed segment.
at::Tensor recomputed(const std::function<at::Tensor()>& body);

}  // namespace lockstep::scenarios::programs
