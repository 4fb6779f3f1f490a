#pragma once

#include "ddp/joinable.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class ProgramCall;

// Makes an optimizer of these param groups: at construction of this rank's part, and later of all
// parameters. The same class with the same defaults each time and on every rank:
//   [](auto groups) { return std::make_unique<torch::optim::Adam>(groups, AdamOptions(1e-3)); }
using OptimizerFactory = std::function<std::unique_ptr<torch::optim::Optimizer>(
    const std::vector<torch::optim::OptimizerParamGroup>& groups)>;

// An optimizer whose state is divided over the ranks (ZeRO, stage 1): each parameter belongs to one
// rank, which alone keeps its state and updates it, and then sends it to the others. It does what
// the whole optimizer would do, bit for bit, wherever that updates each parameter by its own
// gradient and state: SGD, Adam, AdamW, Adagrad, RMSprop; LBFGS is refused.
//
// Parameters are given out group by group, the largest first, each to the rank with the least so
// far, and stay there. They are dense, of any dtypes and strides, on one device, and in one group
// once. Between ranks they must have equal shapes and dtypes, and equal values, as
// DistributedDataParallel makes them; gradients are averaged before step(), as it does.
//
// Everything is Collective unless it says Local, and blocks; a world of one takes the same path.
// Throws UsageError for a null group or factory; DisagreementError with the same sentence on every
// rank where ranks differ or one cannot take part; CommunicationError. Source:
// torch.distributed.optim.ZeroRedundancyOptimizer; docs/semantics.md 6.3.
class ZeroRedundancyOptimizer : public Joinable {
 public:
  // The ranks compare groups, shapes, dtypes and the class that `make` made.
  ZeroRedundancyOptimizer(c10::intrusive_ptr<c10d::ProcessGroup> group,
                          const std::vector<torch::optim::OptimizerParamGroup>& groups,
                          OptimizerFactory make);
  ~ZeroRedundancyOptimizer() override;

  // One group of `parameters` with the options of `make`.
  ZeroRedundancyOptimizer(c10::intrusive_ptr<c10d::ProcessGroup> group,
                          std::vector<at::Tensor> parameters, OptimizerFactory make);

  // Calls `closure`, if any, once; updates this rank's parameters; then all ranks receive each
  // other's, at most two ranks' at a time. Returns what the closure returned. The ranks compare
  // learning rates, and whether the update threw: after that DisagreementError the parameters of
  // some ranks have taken the step and others have not. In a join that has this optimizer, a rank
  // without inputs continues to update the parameters that are its own.
  at::Tensor step(const torch::optim::Optimizer::LossClosure& closure = nullptr);

  // Implement Joinable.
  std::string name() const override;
  void shadow() override;

  // Clears the gradients of all parameters, not of this rank's alone. Local.
  void zero_grad(bool set_to_none = true);

  // The ranks compare it as at construction; parameters that were given out stay where they are.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  // This rank's part: every group, with the parameters that are this rank's. Options that are set
  // here must be set on every rank, as LibTorch's learning rate schedulers do, which take it.
  // Local.
  torch::optim::Optimizer& local() { return *local_; }

  // The rank to which a parameter belongs. Local. Throws UsageError for one that is not here.
  int owner_of(const at::Tensor& parameter) const;

  // Rank `to` receives the state of all ranks, until the next step(). Takes there the memory of the
  // whole optimizer, twice for a moment.
  void consolidate_state_dict(int to = 0);

  // The optimizer of all parameters with the state that was consolidated: to be saved, by
  // torch::save or as Checkpoint::optimizer, and loaded in a world of any size. Local. Throws
  // UsageError on other ranks, and after a step.
  torch::optim::Optimizer& consolidated();

  // The optimizer of all parameters with this one's options and no state: to be loaded. Local.
  std::unique_ptr<torch::optim::Optimizer> whole() const;

  // Takes options and this rank's part of the state out of an optimizer of all parameters, such as
  // whole(), and drops the rest. Local; call it on every rank. Throws UsageError unless its groups
  // hold the same tensors in the same order and it is of the same class; then nothing has changed.
  void load_state_dict(std::unique_ptr<torch::optim::Optimizer> whole);

 private:
  struct Parameter {
    at::Tensor tensor;
    int owner = 0;
  };
  using Group = std::vector<Parameter>;

  static std::string class_of(const torch::optim::Optimizer& optimizer);
  void take(const torch::optim::OptimizerParamGroup& group);
  // Those of one rank, or all.
  static std::vector<at::Tensor> parameters_of(const Group& group, std::optional<int> owner);
  std::vector<torch::optim::OptimizerParamGroup> part_of(
      std::optional<int> owner,
      const std::vector<torch::optim::OptimizerParamGroup>& with_options) const;
  void update();
  void exchange_parameters(ProgramCall& call) const;

  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const OptimizerFactory make_;
  std::vector<Group> groups_;
  std::vector<std::size_t> bytes_by_rank_;  // given out so far
  std::unique_ptr<torch::optim::Optimizer> local_, consolidated_;
};

}  // namespace lockstep
