#include "scenarios/subjects/pytorch_optimizers.h"

#include "harness/pytorch/loaded.h"

#include <set>
#include <string>

namespace lockstep {

namespace {

class ByPythonsAverager final : public AveragedSgd {
 public:
  explicit ByPythonsAverager(std::unique_ptr<pytorch::AveragedSgd> own) : own_(std::move(own)) {}
  void step() override { own_->step(); }
  std::string save() override { return own_->save(); }
  void load(const std::string& saved) override { own_->load(saved); }

 private:
  const std::unique_ptr<pytorch::AveragedSgd> own_;
};

// The class of torch.optim that computes as this one of LibTorch's, and its options.
struct Counterpart {
  std::string name;
  pytorch::Values (*options)(const torch::optim::OptimizerOptions&);
};

pytorch::Values options_of_sgd(const torch::optim::OptimizerOptions& options) {
  const auto& own = dynamic_cast<const torch::optim::SGDOptions&>(options);
  return {{"lr", own.lr()},
          {"momentum", own.momentum()},
          {"dampening", own.dampening()},
          {"weight_decay", own.weight_decay()},
          {"nesterov", own.nesterov()}};
}

pytorch::Values options_of_rmsprop(const torch::optim::OptimizerOptions& options) {
  const auto& own = dynamic_cast<const torch::optim::RMSpropOptions&>(options);
  return {{"lr", own.lr()},
          {"alpha", own.alpha()},
          {"eps", own.eps()},
          {"weight_decay", own.weight_decay()},
          {"momentum", own.momentum()},
          {"centered", own.centered()}};
}

pytorch::Values options_of_adagrad(const torch::optim::OptimizerOptions& options) {
  const auto& own = dynamic_cast<const torch::optim::AdagradOptions&>(options);
  return {{"lr", own.lr()},
          {"lr_decay", own.lr_decay()},
          {"weight_decay", own.weight_decay()},
          {"initial_accumulator_value", own.initial_accumulator_value()},
          {"eps", own.eps()}};
}

Counterpart counterpart_of(const torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr) return {"SGD", options_of_sgd};
  if (dynamic_cast<const torch::optim::RMSprop*>(&optimizer) != nullptr)
    return {"RMSprop", options_of_rmsprop};
  if (dynamic_cast<const torch::optim::Adagrad*>(&optimizer) != nullptr)
    return {"Adagrad", options_of_adagrad};
  throw Unsupported("Python's optimizer rounds otherwise than LibTorch's of the same name");
}

class ByPythonsZero final : public ShardedOptimizer {
 public:
  ByPythonsZero(const ParamGroups& groups, const MakeOptimizer& make, const Group& group)
      : whole_(make(groups)), counterpart_(counterpart_of(*whole_)) {
    refuse_dtypes();
    std::vector<pytorch::ParamGroup> own;
    for (const auto& each : whole_->param_groups()) own.push_back(group_of(each));
    own_ = asked(
        [&] { return pytorch::loaded().zero_redundancy_optimizer(counterpart_.name, own, group); });
  }

  void step() override { own_->step(); }
  void add_group(const torch::optim::OptimizerParamGroup& group) override {
    own_->add_group(group_of(group));
  }
  void set_learning_rate(size_t group, double rate) override {
    own_->set_learning_rate(group, rate);
  }
  std::string save(int to) override { return own_->save(to); }
  void load(const std::string& saved) override { own_->load(saved); }
  int64_t elements_of_state() override { return own_->elements_of_state(); }
  pytorch::ZeroRedundancyOptimizer& own() const { return *own_; }

 private:
  void refuse_dtypes() const {
    std::set<at::ScalarType> dtypes;
    for (const auto& group : whole_->param_groups())
      for (const auto& each : group.params()) dtypes.insert(each.scalar_type());
    if (dtypes.size() > 1)
      throw Unsupported("PyTorch's ZeroRedundancyOptimizer takes parameters of one dtype alone");
    if (at::isComplexType(*dtypes.begin()) && counterpart_.name != "SGD")
      throw Unsupported("Python's " + counterpart_.name +
                        " divides the parts of complex numbers, LibTorch's the numbers");
  }

  pytorch::ParamGroup group_of(const torch::optim::OptimizerParamGroup& group) const {
    return {.parameters = group.params(), .options = counterpart_.options(group.options())};
  }

  const std::unique_ptr<torch::optim::Optimizer> whole_;  // for its options
  const Counterpart counterpart_;
  std::unique_ptr<pytorch::ZeroRedundancyOptimizer> own_;
};

}  // namespace

std::unique_ptr<AveragedSgd> pytorch_averaged_sgd(const std::vector<at::Tensor>& parameters,
                                                  const Group& group,
                                                  const AveragingOptions& options) {
  if (options.momentum != 0)
    throw Unsupported("the plugin averages behind an SGD without momentum alone");
  return asked([&] {
    return std::make_unique<ByPythonsAverager>(
        pytorch::loaded().averaged_sgd(parameters, group,
                                       {{"is_hierarchical", options.is_hierarchical},
                                        {"period", options.levels.back().period},
                                        {"warmup_steps", options.warmup_steps},
                                        {"through_optimizer", options.through_optimizer}}));
  });
}

std::unique_ptr<ShardedOptimizer> pytorch_sharded_optimizer(const ParamGroups& groups,
                                                            const MakeOptimizer& make,
                                                            const Group& group) {
  return std::make_unique<ByPythonsZero>(groups, make, group);
}

pytorch::ZeroRedundancyOptimizer& zero_of(ShardedOptimizer& optimizer) {
  return dynamic_cast<ByPythonsZero&>(optimizer).own();
}

}  // namespace lockstep
