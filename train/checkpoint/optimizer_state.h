#pragma once

#include "train/checkpoint/state.h"

#include <torch/optim/optimizer.h>

namespace lockstep {

// SGD, Adam and AdamW in the layout of PyTorch's optimizers: {'state': {0: {...}}, 'param_groups':
// [...]}, parameters by their place. Everything is Local.

// Nothing for one of these three; otherwise a sentence that says what it is.
std::optional<std::string> problem_with(const torch::optim::Optimizer& optimizer);

StateDict state_of_optimizer(const torch::optim::Optimizer& optimizer);

// Returns what is to be done to load `state` into `optimizer`: options of each group, learning rate
// included, and each parameter's state. Throws std::runtime_error where groups, parameters, options
// or tensors do not fit, and where PyTorch's optimizer does what LibTorch's cannot (maximize).
Assignments assignments_from(const Entry& state, torch::optim::Optimizer& optimizer);

}  // namespace lockstep
