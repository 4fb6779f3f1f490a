#include "harness/world/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"
#include "scenarios/sync_batch_norm/ways.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

// The running statistics of one rank.
struct Running {
  at::Tensor average, variance;
};

double factor_of(const Layer& c, int step, const LayerState& start) {
  if (c.norm.cumulative) return 1.0 / static_cast<double>(start.batches + step + 1);
  return std::ldexp(1.0, static_cast<int>(c.norm.momentum_log2));
}

void add(Step& step, const char* name, const at::Tensor& value, at::ScalarType dtype) {
  step[name].values.push_back(value_of(value.to(dtype)));
}

at::Tensor shaped_like(const at::Tensor& rows, const at::Tensor& values) {
  return rows.reshape(values.movedim(1, -1).sizes()).movedim(-1, 1);
}

at::Tensor inverse_deviation(const Layer& c, const Used& used) {
  const double eps = std::ldexp(1.0, static_cast<int>(c.norm.eps_log2));
  switch (used.eps) {
    case Eps::under_the_root:
      return (used.variance + eps).rsqrt();
    case Eps::beside_the_root:
      return (used.variance.sqrt() + eps).reciprocal();
    case Eps::missing:
      return used.variance.rsqrt();
  }
  return {};
}

void show_affine_gradients(const Layer& c, const Own& own, const Used& used, Step& step) {
  const auto sum = used.affine_sum.defined() ? used.affine_sum : own.cotangent.sum(0);
  const auto product = used.affine_product.defined()
                           ? used.affine_product
                           : (own.cotangent * (own.input - used.average)).sum(0);
  add(step, kWeightGradient, product * inverse_deviation(c, used), parameter_dtype_of(c));
  add(step, kBiasGradient, sum, parameter_dtype_of(c));
}

// What a rank that goes by `used` records of one step.
void show(const Layer& c, int s, int rank, const Own& own, const Used& used, Running& running,
          Step& step) {
  const auto start = start_of(c);
  const auto inverse = inverse_deviation(c, used);
  const auto distance = own.input - used.average;
  auto output = distance * inverse,
       gradient = own.cotangent - used.sum / used.divisor -
                  distance * inverse * inverse * (used.product / used.divisor);
  gradient = gradient * inverse;
  if (c.norm.affine) {
    output = output * start.weight.to(at::kDouble) + start.bias.to(at::kDouble);
    gradient = gradient * start.weight.to(at::kDouble);
    show_affine_gradients(c, own, used, step);
  }
  const auto shape = input_of(c, s, rank);
  add(step, kOutput, shaped_like(output, shape), dtype_of(c));
  if (needs_gradient(c, rank)) {
    add(step, kInputGradient, shaped_like(gradient, shape), dtype_of(c));
  } else {
    step[kInputGradient].values.push_back(no_gradient(c));
  }
  const double given = factor_of(c, s, start);
  const double factor = used.momentum_is_reversed ? 1 - given : given;
  running.average = running.average * (1 - factor) + used.running_average * factor;
  running.variance = running.variance * (1 - factor) + used.running_variance * factor;
  add(step, kRunningMean, running.average, parameter_dtype_of(c));
  add(step, kRunningVar, running.variance, parameter_dtype_of(c));
}

Mistake mistake(const Layer& c, const WrongWay& wrong) {
  Mistake out{wrong.diagnosis, std::vector<Step>(static_cast<size_t>(c.steps))};
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto start = start_of(c);
    Running running{start.running_mean.to(at::kDouble), start.running_var.to(at::kDouble)};
    for (int s = 0; s < c.steps; ++s) {
      const auto all = all_of(c, s);
      const auto& own = all[static_cast<size_t>(rank)];
      show(c, s, rank, own, wrong.way(all, own), running, out.steps[static_cast<size_t>(s)]);
    }
  }
  if (!wrong.shows_in_running_statistics)
    for (auto& step : out.steps)
      for (const char* name : {kRunningMean, kRunningVar}) step.erase(name);
  return out;
}

}  // namespace

std::vector<Mistake> mistakes(const Layer& c) {
  std::vector<Mistake> out;
  if (values_per_channel(c) == 0) return out;
  for (const auto& way : wrong_ways()) out.push_back(mistake(c, way));
  return out;
}

}  // namespace lockstep::scenarios::sync_batch_norm
