#pragma once

#include "ddp/batch_norm/over_ranks.h"
#include "ddp/communicator.h"

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace lockstep {

// Note [Layers that train over ranks]
// SyncBatchNorm issues collectives in the middle of forward and backward. On the group of the
// DistributedDataParallel around it, one that a rank did not reach, since an exception took it out
// of its pass, would meet that rank's next bucket, of another size, and Gloo aborts the process. So
// layers whose group is the instance's get a part of it for themselves, one for all of them, and
// every layer's waits hear of what a failing rank tells. A backward pass that threw is told, too,
// and ends the instance on all ranks, for the part is out of step then. With update_process_group()
// instance and layers begin anew, on that group or another. Where the backend cannot be split
// layers stay where they are.

// What ranks must have alike: the names of the module's layers that train over ranks, and which of
// them do so over `group`. Local.
std::string text_of_layers_over_ranks(const torch::nn::Module& module,
                                      const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// Gives names to layers that have none; takes those over `before`, which may be null, and those
// over `now` to a part of `now`, called `name` in errors; and has all of them watch `notice`.
// Collective if there are any to take, and then all ranks have the same; blocks. Whether there are
// layers.
bool lead_layers_over_ranks(const torch::nn::Module& module,
                            const c10::intrusive_ptr<c10d::ProcessGroup>& before,
                            const c10::intrusive_ptr<c10d::ProcessGroup>& now,
                            Communicator& communicator, const std::string& name,
                            const std::shared_ptr<FailureNotice>& notice);

// Whether a forward of the module may exchange statistics, with gradients or without. Local.
bool some_layer_is_in_training_over_ranks(const torch::nn::Module& module);

// Whether the module, or one in it, is a SyncBatchNorm or a layer that was switched.
bool has_sync_batch_norm(const torch::nn::Module& module);

}  // namespace lockstep
