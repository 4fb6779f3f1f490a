#include "tests/train/zero_redundancy/sharded.h"

#include "tests/ddp/forked_world.h"

#include <torch/torch.h>

namespace lockstep::testing {

namespace optim = torch::optim;

OptimizerFactory factory(const std::string& kind) {
  return [kind](const ParamGroups& groups) -> std::unique_ptr<optim::Optimizer> {
    if (kind == "sgd") return std::make_unique<optim::SGD>(groups, optim::SGDOptions(0.1));
    if (kind == "momentum")
      return std::make_unique<optim::SGD>(groups, optim::SGDOptions(0.1).momentum(0.9));
    if (kind == "adam") return std::make_unique<optim::Adam>(groups, optim::AdamOptions(0.01));
    if (kind == "amsgrad")
      return std::make_unique<optim::AdamW>(groups, optim::AdamWOptions(0.01).amsgrad(true));
    if (kind == "adagrad")
      return std::make_unique<optim::Adagrad>(groups, optim::AdagradOptions(0.01));
    return std::make_unique<optim::RMSprop>(groups, optim::RMSpropOptions(0.01).momentum(0.5));
  };
}

const std::vector<std::string>& optimizer_kinds() {
  static const std::vector<std::string> kKinds = {"sgd",     "momentum", "adam",
                                                  "amsgrad", "adagrad",  "rmsprop"};
  return kKinds;
}

std::vector<at::Tensor> parameters() {
  torch::manual_seed(3);
  std::vector<at::Tensor> all = {torch::rand({7}), torch::rand({3, 4}).t(),
                                 torch::rand({2, 2}, at::kDouble), torch::rand({}),
                                 torch::rand({0, 3})};
  for (at::Tensor& each : all) each.set_requires_grad(true);
  return all;
}

void set_gradients(const std::vector<at::Tensor>& all, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const at::Tensor gradient = torch::rand(all[i].sizes(), all[i].options().requires_grad(false));
    const bool has_one = i + 2 != all.size() || step % 2 == 0;
    all[i].mutable_grad() = has_one ? gradient : at::Tensor();
  }
}

ParamGroups in_groups(const std::vector<at::Tensor>& all, const OptimizerFactory& make) {
  ParamGroups groups;
  groups.emplace_back(std::vector<at::Tensor>(all.begin(), all.begin() + 2));
  groups.emplace_back(std::vector<at::Tensor>(all.begin() + 2, all.end()));
  auto options = make(groups)->param_groups()[1].options().clone();
  options->set_lr(0.25);
  groups[1].set_options(std::move(options));
  return groups;
}

std::string text_of(const std::vector<at::Tensor>& all) {
  std::string text;
  for (const at::Tensor& each : all) text += numbers(each.detach()) + " | ";
  return text;
}

std::string trained(const std::string& kind, int steps) {
  const auto all = parameters();
  const auto whole = factory(kind)(in_groups(all, factory(kind)));
  for (int step = 0; step < steps; ++step) {
    set_gradients(all, step);
    whole->step();
  }
  return text_of(all);
}

}  // namespace lockstep::testing
