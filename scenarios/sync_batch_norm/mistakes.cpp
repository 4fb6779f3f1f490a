#include "harness/rank/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"
#include "scenarios/sync_batch_norm/variants.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

// The running statistics of one rank.
struct Running {
  at::Tensor average, variance;
};

double factor_of(const Layer& c, int step, const LayerState& start, Weight weight) {
  const auto batches = static_cast<double>(start.batches + step + 1);
  if (weight == Weight::one_batch_behind) return 1.0 / (batches - 1);
  if (weight == Weight::cumulative || c.norm.cumulative) return 1.0 / batches;
  const double given = momentum_of(c.norm).value();
  return weight == Weight::reversed ? 1 - given : given;
}

void add(Step& step, const char* name, const at::Tensor& value, at::ScalarType dtype) {
  step[name].values.push_back(value_of(value.to(dtype)));
}

at::Tensor shaped_like(const at::Tensor& rows, const at::Tensor& values) {
  return rows.reshape(values.movedim(1, -1).sizes()).movedim(-1, 1);
}

at::Tensor inverse_deviation(const Layer& c, const Quantities& quantities) {
  const double eps = std::ldexp(1.0, static_cast<int>(c.norm.eps_log2));
  if (quantities.deviation == Deviation::average_of_inverses) {
    auto sum = at::zeros_like(quantities.variance);
    for (const auto& variance : quantities.variances) sum = sum + (variance + eps).rsqrt();
    return sum / static_cast<double>(quantities.variances.size());
  }
  switch (quantities.eps) {
    case Eps::under_the_root:
      return (quantities.variance + eps).rsqrt();
    case Eps::beside_the_root:
      return (quantities.variance.sqrt() + eps).reciprocal();
    case Eps::missing:
      return quantities.variance.rsqrt();
  }
  return {};
}

void show_affine_gradients(const Layer& c, const RankBatch& own, const Quantities& quantities,
                           Step& step) {
  const auto sum = quantities.affine_sum.defined() ? quantities.affine_sum : own.cotangent.sum(0);
  const auto product = quantities.affine_product.defined()
                           ? quantities.affine_product
                           : (own.cotangent * (own.input - quantities.average)).sum(0);
  add(step, kWeightGradient, product * inverse_deviation(c, quantities), parameter_dtype_of(c));
  add(step, kBiasGradient, sum, parameter_dtype_of(c));
}

// The records of one step of a rank that uses these quantities.
void show(const Layer& c, int s, int rank, const RankBatch& own, const Quantities& quantities,
          Running& running, Step& step) {
  const auto start = start_of(c);
  const auto inverse = inverse_deviation(c, quantities);
  const auto distance = own.input - quantities.average;
  auto output = distance * inverse,
       gradient = own.cotangent - quantities.sum / quantities.divisor -
                  distance * inverse * inverse * (quantities.product / quantities.divisor);
  gradient = gradient * inverse;
  if (c.norm.affine) {
    output = output * start.weight.to(at::kDouble) + start.bias.to(at::kDouble);
    gradient = gradient * start.weight.to(at::kDouble);
    show_affine_gradients(c, own, quantities, step);
  }
  const auto shape = input_of(c, s, rank);
  add(step, kOutput, shaped_like(output, shape), dtype_of(c));
  if (needs_gradient(c, rank)) {
    add(step, kInputGradient, shaped_like(gradient, shape), dtype_of(c));
  } else {
    step[kInputGradient].values.push_back(no_gradient(c));
  }
  const double factor = factor_of(c, s, start, quantities.weight);
  running.average = running.average * (1 - factor) + quantities.running_average * factor;
  running.variance = running.variance * (1 - factor) + quantities.running_variance * factor;
  add(step, kRunningMean, running.average, parameter_dtype_of(c));
  add(step, kRunningVar, running.variance, parameter_dtype_of(c));
}

Mistake mistake(const Layer& c, const WrongVariant& wrong) {
  Mistake out{wrong.diagnosis, std::vector<Step>(static_cast<size_t>(c.steps))};
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto start = start_of(c);
    Running running{start.running_mean.to(at::kDouble), start.running_var.to(at::kDouble)};
    for (int s = 0; s < c.steps; ++s) {
      const auto all = batches_of(c, s);
      const auto& own = all[static_cast<size_t>(rank)];
      show(c, s, rank, own, wrong.variant(all, own), running, out.steps[static_cast<size_t>(s)]);
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
  for (const auto& variant : wrong_variants()) out.push_back(mistake(c, variant));
  return out;
}

}  // namespace lockstep::scenarios::sync_batch_norm
