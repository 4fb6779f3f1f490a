#include "scenarios/training/loop.h"

#include "harness/base/values.h"
#include "scenarios/averaging/divided.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lockstep::scenarios::training {

namespace {

// torch.amp.GradScaler, with a growth interval of two steps.
class LossScale {
 public:
  explicit LossScale(bool is_used) : is_used_(is_used) {}

  double value() const { return value_; }

  // Returns whether the gradients, divided by the scale, are finite.
  bool unscale(const std::vector<at::Tensor>& parameters) const {
    if (!is_used_) return true;
    bool finite = true;
    for (const auto& parameter : parameters) {
      parameter.mutable_grad().div_(value_);
      finite = finite && at::isfinite(parameter.grad()).all().item<bool>();
    }
    return finite;
  }

  void update(bool was_finite) {
    if (!is_used_) return;
    good_steps_ = was_finite ? good_steps_ + 1 : 0;
    if (!was_finite) value_ /= 2;
    if (good_steps_ == 2) value_ *= 2, good_steps_ = 0;
  }

 private:
  const bool is_used_;
  double value_ = is_used_ ? 1024 : 1;
  int good_steps_ = 0;
};

void clip(const Loop& c, const std::vector<at::Tensor>& parameters) {
  constexpr double kNorm = 8, kValue = 3;
  if (!clips(c)) return;
  if (c.clip == Clip::norm) torch::nn::utils::clip_grad_norm_(parameters, kNorm);
  if (c.clip == Clip::value) torch::nn::utils::clip_grad_value_(parameters, kValue);
}

// Before the first step and after each.
class Schedule {
 public:
  Schedule(const Loop& c, torch::optim::Optimizer& optimizer)
      : case_(c), optimizer_(optimizer), steps_(optimizer, 2, 0.5) {
    for (const auto& group : optimizer.param_groups())
      full_rates_.push_back(group.options().get_lr());
    warm_up(0);
  }

  void step(int made) {
    if (case_.schedule == RateSchedule::steps) steps_.step();
    warm_up(made);
  }

 private:
  void warm_up(int made) {
    if (case_.schedule != RateSchedule::warmup) return;
    for (size_t g = 0; g < full_rates_.size(); ++g)
      optimizer_.param_groups()[g].options().set_lr(full_rates_[g] * (made + 1) / case_.steps);
  }

  const Loop& case_;
  torch::optim::Optimizer& optimizer_;
  std::vector<double> full_rates_;  // by param group
  torch::optim::StepLR steps_;
};

}  // namespace

std::string name_of(size_t p) {
  return "w" + std::to_string(p);
}

at::Tensor start_of(const Loop& c, int rank, size_t p) {
  return real_numbers({.seed = c.seed,
                       .stream = Stream::parameter,
                       .rank = static_cast<uint64_t>(rank),
                       .index = uint64_t{p} << 32},
                      {size_of(c, p)});
}

size_t group_count(const Loop& c) {
  return std::min(static_cast<size_t>(c.groups), parameter_count(c));
}

bool scales_loss(const Loop& c) {
  return c.scales_loss && !c.steps_in_backward;
}

bool clips(const Loop& c) {
  return c.clip != Clip::none && !c.steps_in_backward;
}

bool begins_anew(const Loop& c) {
  return c.begins_anew > 0 && c.begins_anew < c.steps;
}

bool overflows(const Loop& c) {
  return scales_loss(c) && c.overflow.step > 0 && c.overflow.step < c.steps;
}

bool overflows(const Loop& c, int step) {
  return overflows(c) && step == c.overflow.step;
}

at::Tensor batch_of(const Loop& c, int step, int micro_batch, int rank) {
  constexpr int64_t kMost = 2;
  int64_t elements = 0;
  for (size_t p = 0; p < parameter_count(c); ++p) elements += size_of(c, p);
  const auto batch = whole_numbers({.seed = c.seed,
                                    .stream = Stream::input,
                                    .rank = static_cast<uint64_t>(rank),
                                    .step = static_cast<uint64_t>(step),
                                    .index = static_cast<uint64_t>(micro_batch) << 32},
                                   kMost, {elements}) *
                     c.world.size;
  const bool is_infinite =
      overflows(c, step) && micro_batch == 0 && rank == c.overflow.rank % c.world.size;
  if (is_infinite) batch.narrow(0, elements / 2, 1).fill_(std::numeric_limits<double>::infinity());
  return batch;
}

at::Tensor whole_batch_of(const Loop& c, int step, int micro_batch) {
  at::Tensor sum = batch_of(c, step, micro_batch, 0);
  for (int rank = 1; rank < c.world.size; ++rank) sum = sum + batch_of(c, step, micro_batch, rank);
  return sum / c.world.size;
}

at::Tensor own_part(const Loop& c, const at::Tensor& value) {
  constexpr double kMost = 8;
  return (value * 4).round().clamp(-kMost, kMost) * c.world.size;
}

Fed::Fed(const Loop& c, int rank) : case_(c) {
  for (size_t p = 0; p < parameter_count(c); ++p)
    weights_.push_back(register_parameter(name_of(p), start_of(c, rank, p).to(dtype_of(c, p))));
}

at::Tensor Fed::forward(const at::Tensor& input) {
  at::Tensor loss;
  int64_t offset = 0;
  for (const auto& weight : weights_) {
    const auto given = input.narrow(0, offset, weight.numel()).to(weight.dtype());
    offset += weight.numel();
    const auto term = (weight * (given + own_part(case_, weight.detach()))).sum().to(at::kDouble);
    loss = loss.defined() ? loss + term : term;
  }
  return loss;
}

void train(const Loop& c, Fed& model, const Backward& backward, const Watch& watch) {
  const auto parameters = model.parameters();
  const std::shared_ptr<torch::optim::Optimizer> optimizer = averaging::made(
      c.optimizer, averaging::param_groups(c.optimizer, parameters, group_count(c), c.settings));
  Schedule schedule(c, *optimizer);
  LossScale scale(scales_loss(c));
  const bool is_given = c.steps_in_backward && watch.give_optimizer;
  if (is_given) watch.give_optimizer(optimizer);
  for (int step = 0; step < c.steps; ++step) {
    if (!is_given) optimizer->zero_grad(/*set_to_none=*/!c.zero_in_place);
    for (int m = 0; m < c.micro_batches; ++m) backward(step, m, scale.value());
    if (is_given) {
      schedule.step(step + 1);
      watch.after_update(step);
      continue;
    }
    watch.before_update(step);
    const bool finite = scale.unscale(parameters);
    if (finite) {
      clip(c, parameters);
      optimizer->step();
    }
    scale.update(finite);
    schedule.step(step + 1);
    watch.after_update(step);
  }
}

}  // namespace lockstep::scenarios::training
