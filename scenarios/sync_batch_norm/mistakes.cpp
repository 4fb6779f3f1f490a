// Each mistake is the definition with one quantity taken from elsewhere.
#include "harness/world/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"

#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

// One rank's batch of a step, [values, channels].
struct Own {
  at::Tensor input, cotangent;
  double count = 0;
  at::Tensor average, squared;  // squared distances from its own average, summed
};

enum class Eps { under_the_root, beside_the_root, missing };

// The quantities by which a rank normalises, differentiates and keeps its statistics.
struct Used {
  at::Tensor average, variance;  // forward, and statistics
  at::Tensor sum, product;       // of the cotangents, and times distance
  double divisor = 1;            // of both
  at::Tensor running_average, running_variance;
  bool momentum_is_reversed = false;
  Eps eps = Eps::under_the_root;
  // For the gradients of bias and weight; undefined: the rank's own.
  at::Tensor affine_sum, affine_product;
};

at::Tensor by_channel(const at::Tensor& values) {
  return values.to(at::kDouble).movedim(1, -1).reshape({-1, values.size(1)});
}

std::vector<Own> all_of(const Layer& c, int step) {
  std::vector<Own> all;
  for (int rank = 0; rank < c.world.size; ++rank) {
    Own own{
        by_channel(input_of(c, step, rank)), by_channel(cotangent_of(c, step, rank)), 0, {}, {}};
    own.count = static_cast<double>(own.input.size(0));
    own.average = own.input.sum(0) / std::max(own.count, 1.0);
    own.squared = (own.input - own.average).square().sum(0);
    all.push_back(own);
  }
  return all;
}

using Term = std::function<at::Tensor(const Own&)>;
at::Tensor sum(const std::vector<Own>& all, const Term& term) {
  auto out = at::zeros_like(all.front().average);
  for (const auto& own : all) out = out + term(own);
  return out;
}

double count_of(const std::vector<Own>& all) {
  double count = 0;
  for (const auto& own : all) count += own.count;
  return count;
}

// Around `average`, over all ranks' values.
at::Tensor squares_around(const std::vector<Own>& all, const at::Tensor& average) {
  return sum(all, [&](const Own& own) { return (own.input - average).square().sum(0); });
}

// The right quantities, were `average` and `variance` right.
Used used_with(const std::vector<Own>& all, const at::Tensor& average, const at::Tensor& variance,
               double count) {
  return {.average = average,
          .variance = variance,
          .sum = sum(all, [](const Own& own) { return own.cotangent.sum(0); }),
          .product = sum(
              all, [&](const Own& own) { return (own.cotangent * (own.input - average)).sum(0); }),
          .divisor = count,
          .running_average = average,
          .running_variance = variance * (count / (count - 1)),
          .affine_sum = {},
          .affine_product = {}};
}

Used right(const std::vector<Own>& all) {
  const double count = count_of(all);
  const auto average = sum(all, [](const Own& own) { return own.average * own.count; }) / count;
  return used_with(all, average, squares_around(all, average) / count, count);
}

// From all ranks and a rank's own, what that rank would have used.
using Way = std::function<Used(const std::vector<Own>& all, const Own& own)>;

Used local_statistics(const std::vector<Own>&, const Own& own) {
  return right({own});
}

Used average_of_averages(const std::vector<Own>& all, const Own&) {
  const auto average =
      sum(all, [](const Own& own) { return own.average; }) / static_cast<double>(all.size());
  const double count = count_of(all);
  return used_with(all, average, squares_around(all, average) / count, count);
}

Used without_variance_between_ranks(const std::vector<Own>& all, const Own&) {
  const double count = count_of(all);
  return used_with(all, right(all).average,
                   sum(all, [](const Own& own) { return own.squared; }) / count, count);
}

double own_count_for_all(const std::vector<Own>& all, const Own& own) {
  return own.count * static_cast<double>(all.size());
}

Used count_from_own(const std::vector<Own>& all, const Own& own) {
  const double count = own_count_for_all(all, own);
  const auto average = sum(all, [](const Own& each) { return each.average * each.count; }) / count;
  return used_with(all, average, squares_around(all, average) / count, count);
}

Used running_count_from_own(const std::vector<Own>& all, const Own& own) {
  auto out = right(all);
  const double count = own_count_for_all(all, own);
  out.running_variance = out.variance * (count / (count - 1));
  return out;
}

Used running_variance_biased(const std::vector<Own>& all, const Own&) {
  auto out = right(all);
  out.running_variance = out.variance;
  return out;
}

Used running_statistics_local(const std::vector<Own>& all, const Own& own) {
  const auto alone = right({own});
  auto out = right(all);
  out.running_average = alone.running_average;
  out.running_variance = alone.running_variance;
  return out;
}

Used variance_unbiased(const std::vector<Own>& all, const Own&) {
  auto out = right(all);
  out.variance = out.running_variance;
  return out;
}

Used eps_missing(const std::vector<Own>& all, const Own&) {
  auto out = right(all);
  out.eps = Eps::missing;
  return out;
}

Used eps_beside_the_root(const std::vector<Own>& all, const Own&) {
  auto out = right(all);
  out.eps = Eps::beside_the_root;
  return out;
}

Used affine_gradients_summed(const std::vector<Own>& all, const Own&) {
  auto out = right(all);
  out.affine_sum = out.sum;
  out.affine_product = out.product;
  return out;
}

Used affine_gradients_averaged(const std::vector<Own>& all, const Own& own) {
  auto out = affine_gradients_summed(all, own);
  out.affine_sum = out.affine_sum / static_cast<double>(all.size());
  out.affine_product = out.affine_product / static_cast<double>(all.size());
  return out;
}

Used backward_local(const std::vector<Own>& all, const Own& own) {
  auto out = right(all);
  out.sum = own.cotangent.sum(0);
  out.product = (own.cotangent * (own.input - out.average)).sum(0);
  return out;
}

Used backward_local_by_own_count(const std::vector<Own>& all, const Own& own) {
  auto out = backward_local(all, own);
  out.divisor = own.count;
  return out;
}

Used backward_count_from_own(const std::vector<Own>& all, const Own& own) {
  auto out = right(all);
  out.divisor = own_count_for_all(all, own);
  return out;
}

Used statistics_constant(const std::vector<Own>& all, const Own&) {
  auto out = right(all);
  out.divisor = std::numeric_limits<double>::infinity();
  return out;
}

Used momentum_reversed(const std::vector<Own>& all, const Own&) {
  auto out = right(all);
  out.momentum_is_reversed = true;
  return out;
}

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

Mistake mistake(const Layer& c, Diagnosis diagnosis, const Way& way) {
  Mistake out{std::move(diagnosis), std::vector<Step>(static_cast<size_t>(c.steps))};
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto start = start_of(c);
    Running running{start.running_mean.to(at::kDouble), start.running_var.to(at::kDouble)};
    for (int s = 0; s < c.steps; ++s) {
      const auto all = all_of(c, s);
      const auto& own = all[static_cast<size_t>(rank)];
      show(c, s, rank, own, way(all, own), running, out.steps[static_cast<size_t>(s)]);
    }
  }
  return out;
}

// Running statistics say nothing of what a batch was normalised by.
Mistake without_running_statistics(Mistake one) {
  for (auto& step : one.steps)
    for (const char* name : {kRunningMean, kRunningVar}) step.erase(name);
  return one;
}

std::vector<Mistake> mistakes_of_layers(const Layer& c) {
  return {
      mistake(c,
              Diagnosis{"running_statistics_local",
                        "running statistics that moved towards the rank's own batch, not the "
                        "whole one"},
              running_statistics_local),
      mistake(c,
              Diagnosis{"unbiased_variance",
                        "normalised by a variance divided by the count less one, not by the "
                        "count"},
              variance_unbiased),
      mistake(c, Diagnosis{"eps_missing", "normalised without eps"}, eps_missing),
      mistake(c,
              Diagnosis{"eps_beside_the_root",
                        "eps was added to the standard deviation, not to the variance"},
              eps_beside_the_root),
      mistake(c,
              Diagnosis{"affine_gradients_summed",
                        "the sum over the ranks, where weight's and bias' gradients are the "
                        "rank's own"},
              affine_gradients_summed),
      mistake(c,
              Diagnosis{"affine_gradients_averaged",
                        "the average over the ranks, where weight's and bias' gradients are the "
                        "rank's own"},
              affine_gradients_averaged),
  };
}

std::vector<Mistake> mistakes_of_statistics_and_backward(const Layer& c) {
  return {
      without_running_statistics(mistake(
          c,
          Diagnosis{"local_statistics",
                    "every rank's own statistics: the batch was normalised without its peers"},
          local_statistics)),
      mistake(
          c,
          Diagnosis{"average_of_averages",
                    "from the average of the ranks' own averages: batches of unequal size weigh "
                    "alike"},
          average_of_averages),
      mistake(c,
              Diagnosis{"variance_between_ranks_missing",
                        "from the average of the ranks' variances: the distances between their "
                        "averages are missing"},
              without_variance_between_ranks),
      mistake(c,
              Diagnosis{"count_from_own",
                        "the world size times the rank's own count in place of the count of all "
                        "ranks"},
              count_from_own),
      mistake(c,
              Diagnosis{"running_count_from_own",
                        "a running variance for which every peer's count was taken to be the "
                        "rank's own"},
              running_count_from_own),
      mistake(c,
              Diagnosis{"biased_variance",
                        "a running variance divided by the count, not by the count less one"},
              running_variance_biased),
      mistake(c,
              Diagnosis{"momentum_reversed",
                        "running statistics that weigh the new batch by 1 - momentum"},
              momentum_reversed),
      mistake(c,
              Diagnosis{"backward_local",
                        "a backward that sums over the rank's own samples: what its peers' losses "
                        "owe to the common statistics is missing"},
              backward_local),
      mistake(c,
              Diagnosis{"backward_local",
                        "a backward that averages over the rank's own samples: what its peers' "
                        "losses owe to the common statistics is missing"},
              backward_local_by_own_count),
      mistake(c,
              Diagnosis{"backward_count_from_own",
                        "a backward that divides by the world size times the rank's own count"},
              backward_count_from_own),
      mistake(c,
              Diagnosis{"statistics_constant",
                        "a backward for which average and variance are constants, not functions of "
                        "the input"},
              statistics_constant),
  };
}

}  // namespace

std::vector<Mistake> mistakes(const Layer& c) {
  if (values_per_channel(c) == 0) return {};
  auto out = mistakes_of_statistics_and_backward(c);
  for (auto& one : mistakes_of_layers(c)) out.push_back(std::move(one));
  return out;
}

}  // namespace lockstep::scenarios::sync_batch_norm
