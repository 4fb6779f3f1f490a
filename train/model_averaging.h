#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep {

struct NamedTensor;

// Averages parameters over ranks every few steps, for training in which ranks take steps of their
// own in between (local SGD). The program calls average_parameters() once a step, after the
// optimizer's and before gradients are cleared; the averager counts the steps, from 0, and its kind
// decides which of them average, and over which ranks.
//
// A parameter without a gradient is left alone, as in PyTorch. There ranks that leave out different
// ones hang or mix values; here the ranks that average compare first, and a difference is a
// DisagreementError with the same sentence on each of them, which changes nothing. So are different
// steps, shapes and dtypes. Source: torch.distributed.algorithms.model_averaging; docs/semantics.md
// 6.1.
class ModelAverager {
 public:
  virtual ~ModelAverager() = default;

  // One step. Where it averages, every parameter with a gradient becomes the average over the ranks
  // of the step's group, in place and with the same bits on all of them: divided by their number,
  // then summed, in the parameter's own dtype. Parameters are dense, on one device, of any strides.
  // Takes memory of the size of the parameters of one dtype.
  //
  // Collective over the step's group, and blocks; Local where the step does not average. Throws
  // DisagreementError as said, and CommunicationError; then the step does not count.
  void average_parameters(const torch::nn::Module& module);
  void average_parameters(const torch::optim::Optimizer& optimizer);
  void average_parameters(const std::vector<at::Tensor>& parameters);

  // The number of steps so far: save it, and set it on every rank to continue. Local.
  std::int64_t step() const { return step_; }
  void set_step(std::int64_t step);  // throws UsageError below 0

 private:
  // With whose ranks this step averages; null where it does not.
  virtual c10::intrusive_ptr<c10d::ProcessGroup> group_at(std::int64_t step) const = 0;
  void take_step(const std::vector<NamedTensor>& parameters);

  std::int64_t step_ = 0;
};

struct PeriodicAveragingOptions {
  // One step in so many averages. At least 1; with 1, averaging gradients costs no more.
  std::int64_t period = 1;

  // The first so many steps do not average. At least 0.
  std::int64_t warmup_steps = 0;
};

// Averages over the whole group in step `warmup_steps` and in every `period`-th one after it:
// period 3 and warmup_steps 1 average in steps 1, 4, 7.
class PeriodicModelAverager : public ModelAverager {
 public:
  // Collective; blocks. Throws UsageError for a null group; DisagreementError, with the same
  // sentence on every rank, for different options and for values out of range; CommunicationError.
  PeriodicModelAverager(c10::intrusive_ptr<c10d::ProcessGroup> group,
                        const PeriodicAveragingOptions& options);

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_at(std::int64_t step) const override;

  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const PeriodicAveragingOptions options_;
};

// Groups of `group_size` consecutive ranks average in every `period`-th step.
struct AveragingLevel {
  std::int64_t period = 1;
  int group_size = 1;
};

struct HierarchicalAveragingOptions {
  // From the smallest groups to the whole group: periods and sizes grow, each size is a multiple of
  // the one before, and the last is the group's.
  std::vector<AveragingLevel> levels;

  // The first so many steps do not average. At least 0. Unlike PeriodicModelAverager's, they are
  // not subtracted from the step: period 3 and warmup_steps 1 average in steps 3, 6.
  std::int64_t warmup_steps = 0;
};

// Averages in a step that the periods of some levels divide over the groups of the highest of them:
// with periods 2 and 4, in steps 4 and 8 over all ranks, in 2 and 6 within the smaller groups.
// These are the first and the last of PyTorch's checks; that levels nest is ours.
class HierarchicalModelAverager : public ModelAverager {
 public:
  // Makes the groups of each level. Collective; blocks. Throws as PeriodicModelAverager, and
  // UsageError where the group's backend cannot be split.
  HierarchicalModelAverager(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                            const HierarchicalAveragingOptions& options);

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_at(std::int64_t step) const override;

  // The longest period first.
  std::map<std::int64_t, c10::intrusive_ptr<c10d::ProcessGroup>, std::greater<>> group_by_period_;
  const std::int64_t warmup_steps_;
};

}  // namespace lockstep
