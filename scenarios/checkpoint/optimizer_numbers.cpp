#include "scenarios/checkpoint/optimizer_numbers.h"

namespace lockstep::scenarios::checkpoint {

namespace optim = torch::optim;

namespace {

template <class Options>
std::vector<double> adam_settings(const Options& options) {
  const auto [one, two] = options.betas();
  return {
      options.lr(), one, two, options.eps(), options.weight_decay(), options.amsgrad() ? 1.0 : 0.0};
}

template <class State>
Kept kept_by_adam(const State& state) {
  Kept out{.steps = state.step(),
           .tensors = {{"exp_avg", state.exp_avg()}, {"exp_avg_sq", state.exp_avg_sq()}}};
  if (state.max_exp_avg_sq().defined())
    out.tensors.emplace_back("max_exp_avg_sq", state.max_exp_avg_sq());
  return out;
}

}  // namespace

std::vector<double> settings(const optim::OptimizerOptions& options) {
  if (const auto* adam = dynamic_cast<const optim::AdamOptions*>(&options))
    return adam_settings(*adam);
  if (const auto* adamw = dynamic_cast<const optim::AdamWOptions*>(&options))
    return adam_settings(*adamw);
  const auto& sgd = static_cast<const optim::SGDOptions&>(options);
  return {sgd.lr(), sgd.momentum(), sgd.dampening(), sgd.weight_decay(),
          sgd.nesterov() ? 1.0 : 0.0};
}

std::optional<Kept> kept_for(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return {};
  if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(found->second.get()))
    return kept_by_adam(*adam);
  if (const auto* adamw = dynamic_cast<const optim::AdamWParamState*>(found->second.get()))
    return kept_by_adam(*adamw);
  const auto& sgd = static_cast<const optim::SGDParamState&>(*found->second);
  if (!sgd.momentum_buffer().defined()) return {};
  return Kept{.steps = -1, .tensors = {{"momentum_buffer", sgd.momentum_buffer()}}};
}

}  // namespace lockstep::scenarios::checkpoint
