// Parameters, factories and groups that a sharded optimizer refuses, and an optimizer that no
// checkpoint holds.
#include "harness/worlds/subject.h"
#include "scenarios/collectives/refused_arguments.h"
#include "scenarios/collectives/state_arguments.h"

#include <torch/torch.h>

#include <memory>

namespace lockstep::scenarios::collectives {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Parameters = std::vector<at::Tensor>;

const std::string kSharding = "ZeroRedundancyOptimizer: ";

std::unique_ptr<Optimizer> sgd(const ParamGroups& groups) {
  return std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.5));
}

// A sharded optimizer of one group, whose parameters or factory one rank changes.
Refused sharded_of(const std::function<Parameters()>& others, const MakeOptimizer& make,
                   const std::string& reason) {
  return {[others, make](RankContext& here) {
            return [&here, others, make](bool has_another) {
              const Parameters mine = has_another ? others() : Parameters{leaf(2)};
              sharded_optimizer(here, {OptimizerParamGroup(mine)}, has_another ? make : sgd,
                                here.group());
            };
          },
          kSharding + reason};
}

Refused parameters(const std::function<Parameters()>& others, const std::string& reason) {
  return sharded_of(others, sgd, reason);
}

Refused factory(const MakeOptimizer& make, const std::string& reason) {
  return sharded_of([] { return Parameters{leaf(2)}; }, make, reason);
}

// A group that has a parameter which the optimizer has already.
Refused added_again() {
  return {[](RankContext& here) {
            const auto first = leaf(2);
            const std::shared_ptr<ShardedOptimizer> optimizer =
                sharded_optimizer(here, {OptimizerParamGroup({first})}, sgd, here.group());
            return [optimizer, first](bool has_another) {
              optimizer->add_group(OptimizerParamGroup({has_another ? first : leaf(2)}));
            };
          },
          "ZeroRedundancyOptimizer::add_param_group: parameter 0 in group 1 is there twice"};
}

Refused saved_rmsprop() {
  return {[](RankContext& here) {
            const auto path = path_of_checkpoint(here);
            return [&here, path](bool has_another) {
              const auto parameter = leaf(2);
              torch::optim::RMSprop another({parameter});
              torch::optim::SGD one({parameter}, torch::optim::SGDOptions(0.5));
              Optimizer* const mine = has_another ? static_cast<Optimizer*>(&another) : &one;
              checkpoints(here).save(path, here.group(), {.optimizer = mine, .generators = {}}, {},
                                     {});
            };
          },
          "save_checkpoint: the optimizer is a torch::optim::RMSprop, expected SGD, Adam or AdamW; "
          "save others with torch::save"};
}

// Parameters of which one rank has the second on a device without values.
Refused averaged_on_two_devices() {
  return {[](RankContext& here) {
            return [&here](bool has_another) {
              const auto meta = at::TensorOptions(at::kDouble).device(at::kMeta);
              Parameters all{leaf(2), leaf(2)};
              if (has_another) all[1] = at::ones({2}, meta).set_requires_grad(true);
              for (auto& each : all) each.mutable_grad() = at::zeros_like(each.detach());
              averaged_sgd(here, all, {.levels = {{.period = 1, .size = here.size()}}})->step();
            };
          },
          "average_parameters: parameter 1 is on meta, expected cpu as those before it"};
}

}  // namespace

std::optional<Refused> refused_optimizer(const Disagreeing& c) {
  using enum Argument;
  const std::string first = "parameter 0 in group 0 is ";
  switch (c.argument) {
    case undefined_parameter:
      return parameters([] { return Parameters{at::Tensor()}; }, first + "undefined");
    case sparse_parameter:
      return parameters([] { return Parameters{numbers(2).to_sparse()}; }, first + "not dense");
    case computed_parameter:
      return parameters([] { return Parameters{leaf(2) * 2}; }, first + "not a leaf");
    case parameter_twice:
      return parameters(
          [] {
            const auto shared = leaf(2);
            return Parameters{shared, shared};
          },
          "parameter 1 in group 0 is there twice");
    case no_parameters:
      return parameters([] { return Parameters(); }, "it has no parameters");
    case no_optimizer:
      return factory([](const ParamGroups&) { return nullptr; }, "its factory returns null");
    case optimizer_of_other_groups:
      return factory([](const ParamGroups&) { return sgd({OptimizerParamGroup({leaf(2)})}); },
                     "its factory returns an optimizer of other groups than it receives");
    case optimizer_by_all_gradients:
      return factory(
          [](const ParamGroups& groups) { return std::make_unique<torch::optim::LBFGS>(groups); },
          "LBFGS updates all parameters by all gradients, and cannot be divided");
    case group_added_again:
      return added_again();
    case averaged_devices:
      return averaged_on_two_devices();
    case optimizer_of_no_checkpoint:
      return saved_rmsprop();
    default:
      return {};
  }
}

}  // namespace lockstep::scenarios::collectives
