#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// A parameter whose gradient is averaged.
struct TrainableParameter {
  std::string name;
  at::Tensor tensor;
  bool sparse = false;   // its gradient is sparse
  bool delayed = false;  // its gradient travels behind all others
};

}  // namespace lockstep
