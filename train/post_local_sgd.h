#pragma once

#include "ddp/communication_hook.h"
#include "train/model_averaging.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace lockstep {

// Post-local SGD (Lin et al. 2018): gradients are averaged over all ranks at first, then within
// subgroups or not at all, and from then on parameters are averaged every few steps. Source:
// ddp_comm_hooks.post_localSGD_hook, torch.distributed.optim.PostLocalSGDOptimizer;
// docs/semantics.md 6.2.

struct PostLocalSgdOptions {
  // The first so many synchronised passes average gradients over all ranks. At least 0; equal on
  // all ranks.
  std::int64_t start_local_sgd_iter = 0;

  // The ranks with which gradients are averaged from then on, this one among them, such as those of
  // one host: new_subgroups(group, ranks_of_a_host). Null: none, on all ranks. It carries nothing
  // else while a backward runs.
  c10::intrusive_ptr<c10d::ProcessGroup> subgroup = nullptr;
};

// The communication hook. Gradients are divided, then summed. Everything that
// DistributedDataParallel sends beside them still goes over all ranks: buffers, and a flag of one
// element a pass, by which an error on one rank is known to all. Ranks' parameters differ between
// averages, so nothing may compare them. In a join in which ranks shadow, a subgroup's sum is
// divided by its size.
class PostLocalSgdHook : public CommunicationHook {
 public:
  // Local. Throws UsageError for a negative start_local_sgd_iter.
  explicit PostLocalSgdHook(const PostLocalSgdOptions& options);
  ~PostLocalSgdHook() override;

  std::string description() const override;
  HookResult run(GradBucket& bucket, HookCollectives& collectives) override;

  // The number of passes begun so far: save it, and set it on every rank to continue, before
  // register_comm_hook(), where it is compared over the ranks. Local.
  std::int64_t iter() const { return iter_; }
  void set_iter(std::int64_t iter);  // throws UsageError below 0

 private:
  HookResult average_in_subgroup(const at::Tensor& gradients) const;

  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  const PostLocalSgdOptions options_;
  const std::unique_ptr<Communicator> subgroup_;
  std::int64_t iter_ = 0;
  std::int64_t first_iter_ = 0;      // as it was set
  std::size_t last_bucket_ = kNone;  // that ran last
};

// An optimizer after each of whose steps an averager's step follows. Both are shared with the
// caller.
class PostLocalSgdOptimizer {
 public:
  // Local. Throws UsageError for a null pointer.
  PostLocalSgdOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer,
                        std::shared_ptr<ModelAverager> averager);

  // Steps this rank's optimizer, then averages its parameters as ModelAverager says, which tells
  // where this is Collective and what it throws. Returns what the optimizer returns.
  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr);

  void zero_grad(bool set_to_none = true) { optimizer_->zero_grad(set_to_none); }

  torch::optim::Optimizer& optimizer() { return *optimizer_; }
  ModelAverager& averager() { return *averager_; }

  // The optimizer's archive, and in it "step", the averager's. load() also takes an archive of the
  // optimizer alone, with a warning: then the averager's step is 0, as in PyTorch. Local: ranks'
  // optimizers differ, so every rank saves its own, or all load one rank's right after an average.
  // Throw what the optimizer throws.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::shared_ptr<ModelAverager> averager_;
};

}  // namespace lockstep
