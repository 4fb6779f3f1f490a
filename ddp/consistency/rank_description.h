#pragma once

#include "ddp/base/disagreement.h"
#include "ddp/comm/communicator.h"
#include "ddp/comm/instance_number.h"
#include "ddp/consistency/named_tensor.h"
#include "ddp/options.h"

#include <torch/nn/module.h>

#include <vector>

namespace lockstep {

// The tensors that DistributedDataParallel handles: each once, under its first name that is not
// ignored, in the module's order.
struct ModuleState {
  std::vector<TrainableParameter> trainable;
  std::vector<NamedTensor> frozen;
  std::vector<NamedTensor> buffers;
};
ModuleState state_of(const torch::nn::Module& module,
                     const DistributedDataParallelOptions& options);

// All tensors of `state`.
std::vector<at::Tensor> tensors_of(const ModuleState& state);

// The module's buffers, as named_buffers() lists them now, without the ignored ones.
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module,
                                    const DistributedDataParallelOptions& options);

// `forward_sync_buffers`, whichever of its two names was used.
bool synchronises_buffers(const DistributedDataParallelOptions& options);

// A rank's description of the module it wraps: everything that must be equal on all ranks, in the
// order in which differences are reported (number of parameters; each parameter's name, shape,
// dtype, kind of device, layout, sharing, requires_grad and kind of gradient; buffers; options; how
// many instances live on the group, and how many were made), and why this module with these options
// cannot be trained at all, if it cannot. Local; does not throw for a caller's mistakes.
RankDescription describe_rank(const torch::nn::Module& module,
                              const DistributedDataParallelOptions& options,
                              const InstanceNumber& member, const Communicator& communicator);

}  // namespace lockstep
