#pragma once

#include "ddp/disagreement.h"
#include "ddp/options.h"
#include "ddp/reducer.h"

#include <torch/nn/module.h>

#include <vector>

namespace lockstep {

// The parameters of a module, each once and under its first name, in the module's order.
struct Parameters {
  std::vector<NamedTensor> trainable;
  std::vector<NamedTensor> frozen;
};
Parameters parameters_of(const torch::nn::Module& module);

// `forward_sync_buffers`, whichever of its two names was used.
bool synchronises_buffers(const DistributedDataParallelOptions& options);

// What a rank declares about the module it wraps: everything that must be equal on all ranks, in
// the order in which differences are looked for (number of parameters; each parameter's name,
// shape, dtype, requires_grad and strides; buffers; options), and why this module with these
// options cannot be trained at all, if it cannot. Local; does not throw for anything a caller may
// have got wrong.
Declaration declare(const torch::nn::Module& module, const DistributedDataParallelOptions& options);

}  // namespace lockstep
