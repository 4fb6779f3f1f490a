#pragma once

#include "ddp/disagreement.h"
#include "ddp/group_member.h"
#include "ddp/options.h"
#include "ddp/reducer/reducer.h"

#include <torch/nn/module.h>

#include <vector>

namespace lockstep {

// What DistributedDataParallel has to do with, each tensor once, under its first name that is not
// ignored, in the module's order.
struct ModuleState {
  std::vector<Reducer::Parameter> trainable;
  std::vector<NamedTensor> frozen;
  std::vector<NamedTensor> buffers;
};
ModuleState state_of(const torch::nn::Module& module,
                     const DistributedDataParallelOptions& options);

// All of them.
std::vector<at::Tensor> tensors_of(const ModuleState& state);

// Of the module, as named_buffers() has them now, without those to ignore.
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module,
                                    const DistributedDataParallelOptions& options);

// `forward_sync_buffers`, whichever of its two names was used.
bool synchronises_buffers(const DistributedDataParallelOptions& options);

// What a rank declares about the module it wraps: everything that must be equal on all ranks, in
// the order in which differences are looked for (number of parameters; each parameter's name,
// shape, dtype, kind of device, layout, requires_grad and kind of gradient; buffers; options; how
// many instances live on the group, and how many were made), and why this module with these options
// cannot be trained at all, if it cannot. Local; does not throw for anything a caller may have got
// wrong.
Declaration declare(const torch::nn::Module& module, const DistributedDataParallelOptions& options,
                    const GroupMember& member, const Communicator& communicator);

}  // namespace lockstep
