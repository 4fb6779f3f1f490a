// The tensors that LibTorch's optimizers hold, by name.
#pragma once

#include "harness/base/json.h"

#include <torch/optim/optimizer.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// "SGD"; its class in C++ for one that is not LibTorch's.
std::string name_of(const torch::optim::Optimizer& optimizer);

// The hyper-parameters of each group; of an optimizer that is not LibTorch's the learning rate.
Json groups_of(const torch::optim::Optimizer& optimizer);

// The tensors that the optimizer holds for `parameter`, each with its name, numbers as tensors.
// Nothing for an optimizer that is not LibTorch's.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
NamedTensors state_of(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter);

}  // namespace lockstep
