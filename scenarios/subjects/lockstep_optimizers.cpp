#include "scenarios/subjects/lockstep_optimizers.h"

#include "ddp/errors.h"
#include "train/collectives.h"
#include "train/model_averaging.h"
#include "train/post_local_sgd.h"
#include "train/zero_redundancy_optimizer.h"

#include <torch/torch.h>

#include <sstream>

namespace lockstep {

namespace {

std::string bytes_of(torch::serialize::OutputArchive& archive) {
  std::ostringstream bytes;
  archive.save_to(bytes);
  return bytes.str();
}

torch::serialize::InputArchive archive_of(const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  return archive;
}

std::shared_ptr<ModelAverager> averager_of(const AveragingOptions& options, const Group& group) {
  if (!options.is_hierarchical)
    return std::make_shared<PeriodicModelAverager>(
        group, PeriodicAveragingOptions{.period = options.levels.back().period,
                                        .warmup_steps = options.warmup_steps});
  HierarchicalAveragingOptions out{.levels = {}, .warmup_steps = options.warmup_steps};
  for (const auto& [period, size] : options.levels)
    out.levels.push_back({.period = period, .group_size = size});
  return std::make_shared<HierarchicalModelAverager>(group, out);
}

using torch::optim::OptimizerParamGroup;

// Two param groups, where there are two parameters.
std::vector<OptimizerParamGroup> groups_of(const std::vector<at::Tensor>& parameters) {
  const auto middle = parameters.begin() + static_cast<std::ptrdiff_t>(parameters.size() / 2);
  std::vector<OptimizerParamGroup> out;
  for (const auto& part : {std::vector<at::Tensor>(parameters.begin(), middle),
                           std::vector<at::Tensor>(middle, parameters.end())})
    if (!part.empty()) out.emplace_back(part);
  return out;
}

// A module of these parameters, all but the first in modules below it.
class Holder : public torch::nn::Module {
 public:
  explicit Holder(const std::vector<at::Tensor>& parameters) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      const auto name = std::to_string(p);
      auto below = std::make_shared<torch::nn::Module>();
      (p == 0 ? this : below.get())->register_parameter("w" + name, parameters[p]);
      if (p > 0) register_module("below" + name, below);
    }
  }
};

class Averaging : public AveragedSgd {
 public:
  Averaging(const std::vector<at::Tensor>& parameters, const Group& group,
            const AveragingOptions& options)
      : gives_back_(group),
        through_optimizer_(options.through_optimizer),
        given_(options.given),
        parameters_(parameters),
        module_(parameters),
        optimizer_(
            std::make_shared<torch::optim::SGD>(
                groups_of(parameters), torch::optim::SGDOptions(1.0).momentum(options.momentum)),
            averager_of(options, group)) {}

  void step() override {
    if (through_optimizer_) {
      optimizer_.step();
      return;
    }
    optimizer_.optimizer().step();
    auto& averager = optimizer_.averager();
    if (given_ == AveragedThing::parameters) averager.average_parameters(parameters_);
    if (given_ == AveragedThing::module) averager.average_parameters(module_);
    if (given_ == AveragedThing::optimizer) averager.average_parameters(optimizer_.optimizer());
  }

  std::string save() override {
    torch::serialize::OutputArchive archive;
    optimizer_.save(archive);
    return bytes_of(archive);
  }

  void load(const std::string& saved) override {
    auto archive = archive_of(saved);
    optimizer_.load(archive);
  }

 private:
  const GivesBack gives_back_;  // destroyed last
  const bool through_optimizer_;
  const AveragedThing given_;
  const std::vector<at::Tensor> parameters_;
  const Holder module_;
  PostLocalSgdOptimizer optimizer_;
};

// LibTorch's states say of themselves only what they save.
int64_t elements_of(const torch::optim::OptimizerParamState& state) {
  torch::serialize::OutputArchive saved;
  state.serialize(saved);
  auto archive = archive_of(bytes_of(saved));
  int64_t elements = 0;
  for (const auto& key : archive.keys()) {
    c10::IValue value;
    if (archive.try_read(key, value) && value.isTensor()) elements += value.toTensor().numel();
  }
  return elements;
}

class Divided : public ShardedOptimizer {
 public:
  Divided(const ParamGroups& groups, const MakeOptimizer& make, const Group& group)
      : gives_back_(group),
        rank_(group->getRank()),
        shared_(std::make_shared<ZeroRedundancyOptimizer>(group, groups, make)),
        optimizer_(*shared_) {}

  std::shared_ptr<Joinable> joinable() const { return shared_; }
  void step() override { optimizer_.step(); }
  at::Tensor step_with(const std::function<at::Tensor()>& closure) override {
    return optimizer_.step(closure);
  }
  void zero_grad(bool set_to_none) override { optimizer_.zero_grad(set_to_none); }
  void add_group(const torch::optim::OptimizerParamGroup& group) override {
    optimizer_.add_param_group(group);
  }
  void set_learning_rate(size_t group, double rate) override {
    optimizer_.local().param_groups().at(group).options().set_lr(rate);
  }

  std::string save(int to) override {
    optimizer_.consolidate_state_dict(to);
    if (rank_ != to) return "";
    torch::serialize::OutputArchive archive;
    optimizer_.consolidated().save(archive);
    return bytes_of(archive);
  }

  std::optional<bool> has_whole_state() override {
    try {
      optimizer_.consolidated();
      return true;
    } catch (const UsageError&) {
      return false;
    }
  }

  void load(const std::string& saved) override {
    auto whole = optimizer_.whole();
    auto archive = archive_of(saved);
    whole->load(archive);
    optimizer_.load_state_dict(std::move(whole));
  }

  int64_t elements_of_state() override {
    int64_t elements = 0;
    for (const auto& [parameter, state] : optimizer_.local().state())
      elements += elements_of(*state);
    return elements;
  }

 private:
  const GivesBack gives_back_;  // destroyed last
  const int rank_;
  const std::shared_ptr<ZeroRedundancyOptimizer> shared_;
  ZeroRedundancyOptimizer& optimizer_;
};

}  // namespace

GivesBack::~GivesBack() {
  destroy_process_group(group_);
}

std::unique_ptr<AveragedSgd> lockstep_averaged_sgd(const std::vector<at::Tensor>& parameters,
                                                   const Group& group,
                                                   const AveragingOptions& options) {
  return std::make_unique<Averaging>(parameters, group, options);
}

std::shared_ptr<Joinable> joinable_of(ShardedOptimizer& optimizer) {
  return dynamic_cast<Divided&>(optimizer).joinable();
}

std::unique_ptr<ShardedOptimizer> lockstep_sharded_optimizer(const ParamGroups& groups,
                                                             const MakeOptimizer& make,
                                                             const Group& group) {
  return std::make_unique<Divided>(groups, make, group);
}

}  // namespace lockstep
