#include "recorder/cpp/optimizers.h"

#include <c10/util/Type.h>
#include <torch/torch.h>

#include <cmath>
#include <typeinfo>

namespace lockstep {

namespace {

namespace optim = torch::optim;

// JSON lacks infinity and NaN.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(std::to_string(value));
}

template <class Options>
Json adam_group(const Options& options) {
  return {{"lr", number(options.lr())},
          {"betas", {number(std::get<0>(options.betas())), number(std::get<1>(options.betas()))}},
          {"eps", number(options.eps())},
          {"weight_decay", number(options.weight_decay())},
          {"amsgrad", options.amsgrad()}};
}

Json group_of(const optim::OptimizerOptions& options) {
  if (const auto* sgd = dynamic_cast<const optim::SGDOptions*>(&options))
    return {{"lr", number(sgd->lr())},
            {"momentum", number(sgd->momentum())},
            {"dampening", number(sgd->dampening())},
            {"weight_decay", number(sgd->weight_decay())},
            {"nesterov", sgd->nesterov()}};
  if (const auto* adam = dynamic_cast<const optim::AdamOptions*>(&options))
    return adam_group(*adam);
  if (const auto* adam = dynamic_cast<const optim::AdamWOptions*>(&options))
    return adam_group(*adam);
  if (const auto* adagrad = dynamic_cast<const optim::AdagradOptions*>(&options))
    return {{"lr", number(adagrad->lr())},
            {"lr_decay", number(adagrad->lr_decay())},
            {"weight_decay", number(adagrad->weight_decay())},
            {"initial_accumulator_value", number(adagrad->initial_accumulator_value())},
            {"eps", number(adagrad->eps())}};
  if (const auto* prop = dynamic_cast<const optim::RMSpropOptions*>(&options))
    return {{"lr", number(prop->lr())},
            {"alpha", number(prop->alpha())},
            {"eps", number(prop->eps())},
            {"weight_decay", number(prop->weight_decay())},
            {"momentum", number(prop->momentum())},
            {"centered", prop->centered()}};
  try {
    return {{"lr", number(options.get_lr())}};
  } catch (const c10::Error&) {  // LibTorch lets an optimizer's own options have none
    return Json::object();
  }
}

at::Tensor counted(int64_t step) {
  return at::full({}, step, at::kLong);
}

template <class State>
NamedTensors adam_state(const State& state) {
  return {{"step", counted(state.step())},
          {"exp_avg", state.exp_avg()},
          {"exp_avg_sq", state.exp_avg_sq()},
          {"max_exp_avg_sq", state.max_exp_avg_sq()}};
}

NamedTensors state_in(const optim::OptimizerParamState& state) {
  if (const auto* sgd = dynamic_cast<const optim::SGDParamState*>(&state))
    return {{"momentum_buffer", sgd->momentum_buffer()}};
  if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(&state))
    return adam_state(*adam);
  if (const auto* adam = dynamic_cast<const optim::AdamWParamState*>(&state))
    return adam_state(*adam);
  if (const auto* adagrad = dynamic_cast<const optim::AdagradParamState*>(&state))
    return {{"step", counted(adagrad->step())}, {"sum", adagrad->sum()}};
  if (const auto* prop = dynamic_cast<const optim::RMSpropParamState*>(&state))
    return {{"step", counted(prop->step())},
            {"square_avg", prop->square_avg()},
            {"momentum_buffer", prop->momentum_buffer()},
            {"grad_avg", prop->grad_avg()}};
  return {};
}

}  // namespace

std::string name_of(const optim::Optimizer& optimizer) {
  auto name = c10::demangle(typeid(optimizer).name());
  const std::string ours = "torch::optim::";
  return name.starts_with(ours) ? name.substr(ours.size()) : name;
}

Json groups_of(const optim::Optimizer& optimizer) {
  Json groups = Json::array();
  for (const auto& group : optimizer.param_groups()) groups.push_back(group_of(group.options()));
  return groups;
}

NamedTensors state_of(const optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return {};
  NamedTensors known;
  for (auto& each : state_in(*found->second))
    if (each.second.defined()) known.push_back(std::move(each));
  return known;
}

}  // namespace lockstep
