#pragma once

#include "train/checkpoint/state.h"

#include <torch/nn/module.h>

namespace lockstep {

// Parameters and buffers as PyTorch's state_dict has them. Everything is Local.

// Tensors are copies on the CPU; names lack the prefix "module." where all have it.
StateDict state_of_model(const torch::nn::Module& model);

// Returns what is to be done to load `state`, with or without the prefix, into `model`. Throws
// std::runtime_error where an entry is missing, too many, no tensor, or of another shape or dtype.
Assignments assignments_from(const Entry& state, torch::nn::Module& model);

}  // namespace lockstep
