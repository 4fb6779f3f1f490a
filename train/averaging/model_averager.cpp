#include "ddp/errors.h"
#include "train/averaging/average.h"
#include "train/model_averaging.h"

#include <torch/torch.h>

#include <string>

namespace lockstep {

namespace {

void add(std::vector<NamedTensor>& all, const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& each : parameters)
    all.push_back({"parameter " + std::to_string(all.size()), each});
}

}  // namespace

void ModelAverager::average_parameters(const torch::nn::Module& module) {
  std::vector<NamedTensor> all;
  for (const auto& each : module.named_parameters())
    all.push_back({"parameter '" + each.key() + "'", each.value()});
  take_step(all);
}

void ModelAverager::average_parameters(const torch::optim::Optimizer& optimizer) {
  std::vector<NamedTensor> all;
  for (const auto& each : optimizer.param_groups()) add(all, each.params());
  take_step(all);
}

void ModelAverager::average_parameters(const std::vector<at::Tensor>& parameters) {
  std::vector<NamedTensor> all;
  add(all, parameters);
  take_step(all);
}

void ModelAverager::take_step(const std::vector<NamedTensor>& parameters) {
  if (const auto group = group_at(step_)) average(group, parameters, step_);
  ++step_;
}

void ModelAverager::set_step(std::int64_t step) {
  if (step < 0)
    throw UsageError("ModelAverager::set_step: the step is " + std::to_string(step) +
                     ", expected at least 0");
  step_ = step;
}

}  // namespace lockstep
