#include "scenarios/averaging/case.h"

#include "harness/base/values.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::scenarios::averaging {

namespace {

constexpr int64_t kLargestStart = 3, kLargestGradient = 2;

// A step divides at most twice by a divisor of the world size: its gradients, then what they have
// changed; each later step once.
double unit(const Averaged& c) {
  return std::pow(static_cast<double>(c.world.size), c.steps + 1);
}

// An even number of elements as a matrix of two columns, which lies in memory by columns; a
// multiple of three as complex numbers, whose imaginary parts are zeros.
at::Tensor given_form(const at::Tensor& row) {
  const auto form = row.numel() % 2 == 0 ? row.view({-1, 2}).t().contiguous().t() : row;
  return row.numel() % 3 == 0 ? form.to(at::toComplexType(row.scalar_type())) : form;
}

// forward takes the gradients of all parameters, one after the other.
class Prescribed : public Model {
 public:
  Prescribed(const Averaged& c, int rank) : case_(c) {
    for (size_t p = 0; p < parameter_count(c); ++p)
      weights_.push_back(
          register_parameter(name_of(p), given_form(start_of(c, rank, p).to(dtype_of(c, p)))));
  }

  void enter(int step) { step_ = step; }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor loss;
    int64_t offset = 0;
    for (size_t p = 0; p < weights_.size(); ++p) {
      const auto gradient = input.narrow(0, offset, weights_[p].numel())
                                .view(weights_[p].sizes())
                                .to(weights_[p].dtype());
      offset += weights_[p].numel();
      if (!has_gradient(case_, step_, p)) continue;
      const auto term = at::real(weights_[p] * gradient).sum().to(at::kDouble);
      loss = loss.defined() ? loss + term : term;
    }
    return loss;
  }

 private:
  const Averaged case_;
  std::vector<at::Tensor> weights_;
  int step_ = 0;
};

// The model of one rank and its replica, if it has one: there is none where nothing averages
// gradients.
struct Training {
  Training(const Averaged& c, RankContext& here, const std::shared_ptr<Prescribed>& model,
           int step) {
    if (averages_gradients(c)) {
      WrapOptions options{.bucket_cap_bytes = c.bucket_cap_bytes,
                          .find_unused_parameters = c.lacking > 0,
                          .skip_all_reduce_unused_params = c.lacking == 2,
                          .init_sync = false};
      options.local_sgd = LocalSgdOptions{
          .start = c.start, .subgroup_size = subgroup_size(c), .passes_before = step};
      replica = wrap(here, model, options);
    } else {
      model->to(here.device());
    }
    optimizer = averaged_sgd(here, model->parameters(),
                             {.is_hierarchical = c.rule == Rule::hierarchical,
                              .levels = levels_of(c),
                              .warmup_steps = c.warmup_steps,
                              .through_optimizer = c.through_optimizer,
                              .given = c.given,
                              .momentum = c.has_momentum ? 1.0 : 0.0});
  }

  void backward(Prescribed& model, const at::Tensor& input, const c10::Device& device) const {
    if (replica)
      replica->backward(replica->forward(input));
    else
      model.forward(input.to(device)).backward();
  }

  std::unique_ptr<Replica> replica;
  std::unique_ptr<AveragedSgd> optimizer;
};

}  // namespace

std::string name_of(size_t parameter) {
  return "w" + std::to_string(parameter);
}

at::ScalarType dtype_of(const Averaged& c, size_t parameter) {
  return scenarios::dtype_of(c, parameter, at::kDouble);
}

bool has_gradient(const Averaged& c, int step, size_t parameter) {
  const auto at = static_cast<size_t>(step);
  return (at + parameter) % 3 >= static_cast<size_t>(c.lacking) ||
         parameter == at % parameter_count(c);
}

bool averages_gradients(const Averaged& c) {
  return c.gradients == Gradients::post_local_sgd;
}

int subgroup_size(const Averaged& c) {
  int size = std::min(c.subgroup_size, c.world.size);
  while (size > 0 && c.world.size % size != 0) --size;
  return size;
}

std::vector<AveragingLevelSpec> levels_of(const Averaged& c) {
  std::vector<AveragingLevelSpec> out;
  AveragingLevelSpec below{.period = 0, .size = 1};
  const auto& levels = c.rule == Rule::hierarchical ? c.levels : std::vector<AveragingLevelSpec>();
  for (const auto& level : levels) {
    const bool counts = level.period > below.period && level.size % below.size == 0 &&
                        c.world.size % level.size == 0 && level.size < c.world.size;
    if (counts) out.push_back(below = level);
  }
  out.push_back({.period = std::max(c.period, below.period + 1), .size = c.world.size});
  return out;
}

at::Tensor start_of(const Averaged& c, int rank, size_t parameter) {
  return whole_numbers({.seed = c.seed,
                        .stream = Stream::parameter,
                        .rank = static_cast<uint64_t>(rank),
                        .index = uint64_t{parameter} << 32},
                       kLargestStart, {size_of(c, parameter)}) *
         unit(c);
}

at::Tensor gradient_of(const Averaged& c, int step, int rank, size_t parameter) {
  return whole_numbers({.seed = c.seed,
                        .stream = Stream::cotangent,
                        .rank = static_cast<uint64_t>(rank),
                        .step = static_cast<uint64_t>(step),
                        .index = uint64_t{parameter} << 32},
                       kLargestGradient, {size_of(c, parameter)}) *
         unit(c);
}

double largest_number(const Averaged& c) {
  const int64_t gradients = c.has_momentum ? c.steps * (c.steps + 1) / 2 : c.steps;
  return unit(c) * static_cast<double>(kLargestStart + gradients * kLargestGradient) * c.world.size;
}

void program(const Averaged& c, RankContext& here) {
  const auto model = std::make_shared<Prescribed>(c, here.rank());
  auto training = std::make_unique<Training>(c, here, model, 0);
  for (int step = 0; step < c.steps; ++step) {
    if (step > 0 && step == c.restart) {
      const auto saved = training->optimizer->save();
      training.reset();
      training = std::make_unique<Training>(c, here, model, step);
      training->optimizer->load(saved);
    }
    model->zero_grad();
    model->enter(step);
    here.enter(step, "backward");
    std::vector<at::Tensor> gradients;
    for (size_t p = 0; p < parameter_count(c); ++p)
      gradients.push_back(gradient_of(c, step, here.rank(), p));
    training->backward(*model, at::cat(gradients), here.device());
    here.enter(step, "optimizer");
    training->optimizer->step();
    here.enter(step, "after step");
    for (const auto& parameter : model->named_parameters())
      here.record(parameter.key(), at::real(parameter.value().detach()).reshape({-1}));
  }
}

}  // namespace lockstep::scenarios::averaging
