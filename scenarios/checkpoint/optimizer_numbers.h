// The numbers of LibTorch's SGD, Adam and AdamW, by the names that PyTorch gives them.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <utility>
#include <vector>

namespace lockstep::scenarios::checkpoint {

// SGD: learning rate, momentum, dampening, weight decay, 1 for nesterov. Adam and AdamW: learning
// rate, two betas, eps, weight decay, 1 for amsgrad.
std::vector<double> settings(const torch::optim::OptimizerOptions& options);

// The numbers that an optimizer keeps for a parameter; undefined tensors are left out.
struct Kept {
  int64_t steps = 0;  // -1: none are counted
  std::vector<std::pair<const char*, at::Tensor>> tensors;
};
std::optional<Kept> kept_for(torch::optim::Optimizer& optimizer, const at::Tensor& parameter);

}  // namespace lockstep::scenarios::checkpoint
