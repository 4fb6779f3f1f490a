#include "scenarios/programs/trained.h"

#include "scenarios/cases/options.h"
#include "scenarios/programs/lifecycle.h"
#include "scenarios/programs/values.h"

#include <torch/torch.h>

#include <cmath>
#include <exception>
#include <functional>
#include <thread>

namespace lockstep::scenarios::programs {

namespace {

void on_another_thread(const std::function<void()>& act) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      act();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

bool is_finite(const at::Tensor& gradient) {
  const auto dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
  return dense.isfinite().all().item<bool>();
}

}  // namespace

Trained::Trained(const ProgramSpec& c, const std::vector<Action>& actions, int model,
                 RankContext& here)
    : c_(c),
      actions_(actions),
      here_(here),
      module_(std::make_shared<LayeredModel>(c, model, build_seed(c, here.rank()))),
      replica_(wrapped(here.group())) {
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module_->distinct_parameters())
    parameters.push_back(parameter.value);
  optimizer_ =
      std::make_unique<torch::optim::SGD>(parameters, std::ldexp(1.0, c.learning_rate_log2));
}

// Gradients of a pass with create_graph hold their parameters.
Trained::~Trained() {
  for (auto& each : module_->distinct_parameters()) each.value.mutable_grad().reset();
}

std::unique_ptr<Replica> Trained::wrapped(const Group& group) const {
  const torch::AutoGradMode gradients(!c_.environment.wraps_without_gradients);
  auto options = in_messages(module_->options(c_.options), message_bytes(c_.seed));
  if (c_.hook == BucketHook::all_reduce) options.hook = HookOptions();
  if (c_.hook == BucketHook::gathered) options.hook = HookOptions{.kind = HookKind::gathered};
  return wrap(here_, module_, options, group);
}

void Trained::run(const Action& action) {
  const auto op = action.step.op;
  const bool is_chosen = has_bit(action.step.ranks, here_.rank());
  if (op == Op::forward) losses_[action.number] = forward(action);
  if (is_backward(op)) backward(action);
  if (op == Op::grad) grad(action);
  if (op == Op::bare && is_chosen) {
    const auto input = prepared(action).to(here_.device());
    loss(action, input, module_->outputs(input)).backward();
  }
  if (op == Op::evaluate || op == Op::infer) evaluate(action);
  if (op == Op::throw_) replica_->forward(prepared(action));
  if (is_zero(op)) module_->zero_grad(/*set_to_none=*/op == Op::zero_none);
  if (op == Op::scale && is_chosen) scale(*module_);
  if (op == Op::update || (op == Op::update_if_finite && is_finite())) optimizer_->step();
  if (op == Op::relayout && is_chosen) relayout(*module_);
  if (op == Op::load) load(c_, action, here_.rank(), *module_);
  if (op == Op::renew) renew(*module_);
  if (op == Op::convert) convert(*module_);
  if (is_freeze(op)) {
    module_->set_trainable(action.step.layer, op == Op::unfreeze);
    if (replica_ && action.step.forgotten) replica_->parameters_changed_unreported();
    if (replica_ && !action.step.forgotten) replica_->update_trainable_parameters();
  }
  if (op == Op::tell) replica_->update_trainable_parameters();
  if (op == Op::hold) guards_.push_back(replica_->no_sync());
  if (op == Op::release)
    guards_.erase(guards_.begin() + action.step.of % static_cast<int>(guards_.size()));
  if (op == Op::wrap || op == Op::unwrap) {
    replica_.reset();
    guards_.clear();
  }
  const auto group =
      op == Op::wrap || op == Op::regroup ? group_of(c_, here_, action.step.cut) : Group();
  if (op == Op::wrap) replica_ = wrapped(group);
  if (op == Op::regroup) replica_->update_process_group(group);
}

void Trained::drop_graphs(const std::vector<int>& steps) {
  for (const int step : steps) losses_.erase(step);
}

// The model's next forward is this one.
at::Tensor Trained::prepared(const Action& action) {
  module_->call = call_of(c_, action, here_.rank());
  return input_of(c_, action, here_.rank(), module_->input_count())
      .requires_grad_(action.step.penalty_alone);
}

at::Tensor Trained::loss(const Action& action, const at::Tensor& input,
                         const std::vector<at::Tensor>& outputs) {
  auto output = sum_of_outputs(c_, action, here_.rank(), outputs);
  const auto weight = weight_of(c_, actions_, action, here_.rank());
  if (action.step.penalty_alone)
    output = penalty_for_input(output, input);
  else if (action.step.penalty)
    output = output + penalty_of(output, *module_);
  if (action.step.direct != Direct::no)
    output = output + (module_->first().sum() * kDirect).to(output.device(), at::kDouble);
  return output * weight;
}

at::Tensor Trained::forward(const Action& action) {
  const auto input = prepared(action);
  if (c_.nested) return loss(action, input, listed(replica_->nested_outputs(input)));
  const bool is_single = c_.outputs == 1 && !c_.returns_first;
  return loss(
      action, input,
      is_single ? std::vector<at::Tensor>{replica_->forward(input)} : replica_->outputs(input));
}

at::Tensor Trained::sum_of_losses(const std::vector<int>& steps) const {
  at::Tensor sum;
  for (const int step : steps) {
    const auto& each = losses_.at(step);
    sum = sum.defined() ? sum + each : each;
  }
  return sum;
}

void Trained::backward(const Action& action) {
  const auto sum = sum_of_losses(action.graphs);
  const bool retains = action.closed.empty();
  const auto& step = action.step;
  const bool is_plain = !retains && !step.create_graph && step.inputs == Inputs::no && replica_;
  const auto act = [&] {
    if (is_plain) return replica_->backward(sum);
    auto inputs = trainable();
    if (step.inputs == Inputs::first) inputs = {module_->first()};
    sum.backward({}, retains, step.create_graph,
                 step.inputs == Inputs::no ? std::nullopt : std::optional<at::TensorList>(inputs));
  };
  step.thread&& here_.device().is_cpu() ? on_another_thread(act) : act();
  drop_graphs(action.closed);
}

std::vector<at::Tensor> Trained::trainable() const {
  std::vector<at::Tensor> out;
  for (const auto& each : module_->distinct_parameters())
    if (each.value.requires_grad()) out.push_back(each.value);
  return out;
}

// The returned gradients are the caller's, and may be overwritten.
void Trained::grad(const Action& action) const {
  const auto returned =
      torch::autograd::grad({losses_.at(action.graphs.front())}, trainable(), {},
                            /*retain_graph=*/true, action.step.create_graph, /*allow_unused=*/true);
  const torch::NoGradGuard no_grad;
  for (const auto& each : returned)
    if (each.defined()) each.mul_(kScale);
}

void Trained::evaluate(const Action& action) {
  const auto input = prepared(action);
  module_->eval();
  if (action.step.op == Op::infer) {
    const c10::InferenceMode inference;
    replica_->forward(input);
  } else {
    const torch::NoGradGuard no_grad;
    replica_->forward(input);
  }
  module_->train();
}

bool Trained::is_finite() const {
  for (const auto& each : module_->distinct_parameters())
    if (each.value.grad().defined() && !programs::is_finite(each.value.grad())) return false;
  return true;
}

}  // namespace lockstep::scenarios::programs
