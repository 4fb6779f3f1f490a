// The program of the shape Hooked.
#include "harness/base/values.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/hooks/case.h"
#include "scenarios/hooks/conserved.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::hooks {

namespace {

// forward takes the gradients of all parameters, one after the other.
class Prescribed : public Model {
 public:
  explicit Prescribed(const Hooked& c) {
    for (size_t p = 0; p < parameter_count(c); ++p)
      weights_.push_back(register_parameter(
          name_of(p), torch::ones(shape_of(size_of(c, p)), torch::dtype(dtype_of(c)))));
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor loss;
    int64_t offset = 0;
    for (const auto& weight : weights_) {
      const auto gradient = input.narrow(0, offset, weight.numel()).view(weight.sizes());
      const auto term = (weight * gradient).sum();
      loss = loss.defined() ? loss + term : term;
      offset += weight.numel();
    }
    return loss;
  }

 private:
  std::vector<at::Tensor> weights_;
};

// The first training of a case is what it says; of the others, one has the next random seed, and
// one is never loaded.
enum class Which { first, another_seed, never_loaded };

class Training {
 public:
  Training(const Hooked& c, RankContext& here, Which which)
      : c_(c),
        here_(here),
        which_(which),
        model_(std::make_shared<Prescribed>(c)),
        options_(c.options) {
    options_.hook = c.hook;
    if (which == Which::another_seed) ++options_.hook->random_seed;
    replica_ = wrap(here, model_, options_);
  }

  void run() {
    const auto steps = [&] {
      for (int step = 0; step < c_.steps; ++step)
        if (has_input(c_, step, here_.rank())) train(step);
    };
    if (has_first_pass(c_)) pass_before_the_first();
    if (which_ == Which::another_seed) return train_once();
    if (which_ == Which::never_loaded) return steps();
    here_.enter(0, kWrapped);
    const auto log = replica_->log();
    here_.record("named hooks", std::vector<int64_t>{!log || !log->comm_hook.empty()});
    if (!has_join(c_)) {
      steps();
      return record_what_was_sent();
    }
    replica_->join(c_.divisor, steps);
    record_steps_without_inputs();
  }

 private:
  void pass_before_the_first() {
    if (!replica_->sent())
      throw Unsupported(
          "this subject's PowerSGD keeps what is not finite, and begins with no zeros");
    here_.enter(0, "pass before the first");
    const double each = c_.first_pass == FirstPass::zeros ? 0 : HUGE_VAL;
    model_->zero_grad();
    replica_->backward(replica_->forward(torch::full({elements_of(c_)}, each, dtype_of(c_))));
  }

  void train_once() {
    for (int step = 0; step < c_.hook.start; ++step) pass(step);
    train(static_cast<int>(c_.hook.start), c_.steps);
  }

  void train(int step) {
    if (step > 0 && step == c_.reload && which_ == Which::first) {
      const auto saved = replica_->save_hook();
      replica_.reset();
      replica_ = wrap(here_, model_, options_);
      replica_->load_hook(saved);
    }
    train(step, step);
  }

  void train(int step, int recorded_as) {
    pass(step);
    here_.enter(recorded_as, which_ == Which::never_loaded ? kNeverLoaded : kAfterBackward);
    for (const auto& parameter : model_->named_parameters())
      here_.record(parameter.key(), gradient_or_nothing(parameter.value()));
    if (which_ != Which::never_loaded) record_left_out(recorded_as);
  }

  void pass(int step) {
    model_->zero_grad();
    std::vector<at::Tensor> gradients;
    for (size_t p = 0; p < parameter_count(c_); ++p)
      gradients.push_back(gradient_of(c_, step, here_.rank(), p).view({-1}));
    here_.enter(step, "forward");
    const auto loss = replica_->forward(at::cat(gradients));
    here_.enter(step, "backward");
    replica_->backward(loss);
  }

  void record_what_was_sent() {
    if (c_.hook.kind != HookKind::power_sgd || c_.reload > 0) return;
    const auto sent = replica_->sent();
    here_.enter(c_.steps, kCounted);
    here_.record(kSent,
                 sent ? std::vector<int64_t>{sent->before, sent->after} : std::vector<int64_t>());
  }

  void record_left_out(int step) {
    if (c_.hook.kind != HookKind::power_sgd) return;
    here_.enter(step, kLeftOut);
    for (const auto& parameter : model_->named_parameters()) {
      const auto left_out = replica_->left_out(parameter.value());
      if (left_out.defined()) here_.record(parameter.key(), left_out);
    }
  }

  void record_steps_without_inputs() {
    const int steps = steps_of(c_);
    for (int step = 0; step < steps; ++step) {
      if (has_input(c_, step, here_.rank())) continue;
      here_.enter(step, kAfterBackward);
      for (size_t p = 0; p < parameter_count(c_); ++p)
        here_.record(name_of(p), torch::empty({0}, dtype_of(c_)));
    }
    if (steps > 0 && !has_input(c_, steps - 1, here_.rank())) record_left_out(steps - 1);
  }

  const Hooked& c_;
  RankContext& here_;
  const Which which_;
  const std::shared_ptr<Prescribed> model_;
  WrapOptions options_;
  std::unique_ptr<Replica> replica_;
};

}  // namespace

void program(const Hooked& c, RankContext& here) {
  Training(c, here, Which::first).run();
  if (has_another_seed(c)) Training(c, here, Which::another_seed).run();
  if (has_one_to_compare(c)) Training(c, here, Which::never_loaded).run();
}

}  // namespace lockstep::scenarios::hooks
