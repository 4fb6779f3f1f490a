#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <optional>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep {

class DistributedSampler;

// The parts of a replica that are compared between the ranks. Null is left out.
struct ReplicaParts {
  // A bare module, or a DistributedDataParallel's (&*ddp).
  const torch::nn::Module* model = nullptr;

  // The model's buffers, too. False where they are each rank's own between the forwards that
  // broadcast them, such as the running statistics of a BatchNorm that is not synchronised.
  bool buffers = true;

  // SGD, Adam or AdamW: each parameter's state, and the options of each group, such as the learning
  // rate.
  const torch::optim::Optimizer* optimizer = nullptr;

  // Dataset size, world size, options, the epoch set last and its order, so that the ranks divide
  // one dataset in one order. Their positions are not compared: a loader's workers run ahead.
  const DistributedSampler* sampler = nullptr;

  // Longest wait for the slowest rank. Unset: that of the group.
  std::optional<std::chrono::milliseconds> timeout;
};

// Throws unless all ranks hold the same bits: zeros of two signs differ, and so do NaNs of two
// payloads. Ranks send 8 bytes for each tensor; only where these differ, the first tensor that does
// travels from rank 0 to the others. Tensors on a device are copied to the CPU one by one, the
// optimizer's state as a whole.
//
// Collective; blocks; on a group of its own, as the collectives of train/collectives.h. Throws
// DisagreementError, with the same sentence on every rank, which names the first thing that
// differs, its first element with its values, and who has which: names, shapes or dtypes, then
// options, then values in the order of parameters, buffers, optimizer state, sampler. Throws
// UsageError for a null group, and CommunicationError. Equal instances of DistributedDataParallel
// stay equal, so a difference is a mistake of the program: a step that one rank left out, an update
// of its own, or a state that one rank alone has loaded.
//
// DistributedDataParallelOptions::check_replicas_every does it in every n-th forward.
void check_replicas_equal(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                          const ReplicaParts& parts);

}  // namespace lockstep
