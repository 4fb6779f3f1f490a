#pragma once

#include "ddp/comm/communicator.h"
#include "ddp/sync_batch_norm/over_ranks.h"

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace lockstep {

// Note [Layers that train over ranks]
// SyncBatchNorm issues collectives in the middle of forward and backward. On the group of the
// DistributedDataParallel around it, a collective that a rank did not reach, because of an
// exception in its pass, would match that rank's next bucket, of another size, and Gloo would abort
// the process. So layers whose group is the instance's share one subgroup of their own, and their
// waits poll the peers' errors. A backward pass that threw is reported too, and makes the instance
// unusable on all ranks, since the subgroup is then out of step. update_process_group() rebuilds
// instance and layers, on the same group or another. Where the backend cannot split groups the
// layers stay on the instance's.

// Lists what must be equal on all ranks: the names of the module's layers that train over ranks,
// and which of them do so over `group`. Local.
std::string text_of_layers_over_ranks(const torch::nn::Module& module,
                                      const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// Names layers that have no name; moves layers over `before`, which may be null, or over `now` to a
// subgroup of `now`, called `name` in errors; and makes all of them watch `notice`. Collective if
// there are layers to move, which all ranks must have alike; blocks. Returns whether there are
// layers.
bool assign_sync_bn_group(const torch::nn::Module& module,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& before,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& now,
                          Communicator& communicator, const std::string& name,
                          const std::shared_ptr<FailureNotice>& notice);

// True if a forward of the module may exchange statistics, with gradients or without. Local.
bool some_layer_is_in_training_over_ranks(const torch::nn::Module& module);

// True if the module or a submodule is a SyncBatchNorm or a layer that was converted.
bool has_sync_batch_norm(const torch::nn::Module& module);

}  // namespace lockstep
