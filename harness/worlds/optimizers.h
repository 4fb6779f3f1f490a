// Optimizers of a subject: one whose parameters the ranks average every few steps, and one whose
// state is divided over them.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// SGD on one rank, perhaps with momentum, and the averaging of its parameters.
class AveragedSgd {
 public:
  virtual ~AveragedSgd() = default;

  // Updates the parameters, then averages them if this step does. Collective over the ranks that
  // average in this step.
  virtual void step() = 0;

  // Local. The state that another one needs to continue, and takes over.
  virtual std::string save() = 0;
  virtual void load(const std::string& saved) = 0;
};

using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;
using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(const ParamGroups& groups)>;

// An optimizer whose state is divided over the ranks.
class ShardedOptimizer {
 public:
  virtual ~ShardedOptimizer() = default;

  // Collective. Updates all parameters on all ranks.
  virtual void step() = 0;

  // The same, after `closure` has computed gradients; returns what that returned. Throws
  // Unsupported unless the subject offers it.
  virtual at::Tensor step_with(const std::function<at::Tensor()>& closure);

  // Collective.
  virtual void add_group(const torch::optim::OptimizerParamGroup& group) = 0;

  // Local. Clears the gradients of all parameters. Throws Unsupported unless the subject offers it.
  virtual void zero_grad(bool set_to_none);

  // Local; called on every rank alike.
  virtual void set_learning_rate(size_t group, double rate) = 0;

  // Collective. Returns the state of all ranks on rank `to`, nothing on others.
  virtual std::string save(int to) = 0;

  // Local. True if this rank has the state of all ranks since the last save, and of now; nothing
  // where the subject does not say.
  virtual std::optional<bool> has_whole_state() { return {}; }

  // Takes what save() returned, perhaps in a world of another size; called on every rank.
  virtual void load(const std::string& saved) = 0;

  // Local. The elements of the tensors that this rank keeps as state.
  virtual int64_t elements_of_state() = 0;
};

}  // namespace lockstep
