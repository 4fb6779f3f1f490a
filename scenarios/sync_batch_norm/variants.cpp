#include "scenarios/sync_batch_norm/variants.h"

#include <torch/torch.h>

#include <limits>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

at::Tensor by_channel(const at::Tensor& values) {
  return values.to(at::kDouble).movedim(1, -1).reshape({-1, values.size(1)});
}

using Term = std::function<at::Tensor(const RankBatch&)>;
at::Tensor sum(const std::vector<RankBatch>& all, const Term& term) {
  auto out = at::zeros_like(all.front().average);
  for (const auto& own : all) out = out + term(own);
  return out;
}

double count_of(const std::vector<RankBatch>& all) {
  double count = 0;
  for (const auto& own : all) count += own.count;
  return count;
}

// The sum of squared distances from `average`, over all ranks' values.
at::Tensor squares_around(const std::vector<RankBatch>& all, const at::Tensor& average) {
  return sum(all, [&](const RankBatch& own) { return (own.input - average).square().sum(0); });
}

// The right quantities for a given `average` and `variance`.
Quantities quantities_with(const std::vector<RankBatch>& all, const at::Tensor& average,
                           const at::Tensor& variance, double count) {
  return {.average = average,
          .variance = variance,
          .sum = sum(all, [](const RankBatch& own) { return own.cotangent.sum(0); }),
          .product = sum(
              all,
              [&](const RankBatch& own) { return (own.cotangent * (own.input - average)).sum(0); }),
          .divisor = count,
          .running_average = average,
          .running_variance = variance * (count / (count - 1)),
          .affine_sum = {},
          .affine_product = {}};
}

Quantities right(const std::vector<RankBatch>& all) {
  const double count = count_of(all);
  const auto average =
      sum(all, [](const RankBatch& own) { return own.average * own.count; }) / count;
  return quantities_with(all, average, squares_around(all, average) / count, count);
}

Quantities local_statistics(const std::vector<RankBatch>&, const RankBatch& own) {
  return right({own});
}

Quantities average_of_averages(const std::vector<RankBatch>& all, const RankBatch&) {
  const auto average =
      sum(all, [](const RankBatch& own) { return own.average; }) / static_cast<double>(all.size());
  const double count = count_of(all);
  return quantities_with(all, average, squares_around(all, average) / count, count);
}

Quantities without_variance_between_ranks(const std::vector<RankBatch>& all, const RankBatch&) {
  const double count = count_of(all);
  return quantities_with(all, right(all).average,
                         sum(all, [](const RankBatch& own) { return own.squared; }) / count, count);
}

double own_count_for_all(const std::vector<RankBatch>& all, const RankBatch& own) {
  return own.count * static_cast<double>(all.size());
}

Quantities count_from_own(const std::vector<RankBatch>& all, const RankBatch& own) {
  const double count = own_count_for_all(all, own);
  const auto average =
      sum(all, [](const RankBatch& each) { return each.average * each.count; }) / count;
  return quantities_with(all, average, squares_around(all, average) / count, count);
}

Quantities running_count_from_own(const std::vector<RankBatch>& all, const RankBatch& own) {
  auto out = right(all);
  const double count = own_count_for_all(all, own);
  out.running_variance = out.variance * (count / (count - 1));
  return out;
}

Quantities running_variance_biased(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.running_variance = out.variance;
  return out;
}

Quantities running_statistics_local(const std::vector<RankBatch>& all, const RankBatch& own) {
  const auto alone = right({own});
  auto out = right(all);
  out.running_average = alone.running_average;
  out.running_variance = alone.running_variance;
  return out;
}

Quantities variance_unbiased(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.variance = out.running_variance;
  return out;
}

Quantities eps_missing(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.eps = Eps::missing;
  return out;
}

Quantities eps_beside_the_root(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.eps = Eps::beside_the_root;
  return out;
}

Quantities affine_gradients_summed(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.affine_sum = out.sum;
  out.affine_product = out.product;
  return out;
}

Quantities affine_gradients_averaged(const std::vector<RankBatch>& all, const RankBatch& own) {
  auto out = affine_gradients_summed(all, own);
  out.affine_sum = out.affine_sum / static_cast<double>(all.size());
  out.affine_product = out.affine_product / static_cast<double>(all.size());
  return out;
}

Quantities inverse_deviations_averaged(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.deviation = Deviation::average_of_inverses;
  for (const auto& own : all) out.variances.push_back(own.squared / std::max(own.count, 1.0));
  return out;
}

Quantities sum_left_out(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.sum = at::zeros_like(out.sum);
  return out;
}

Quantities product_left_out(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.product = at::zeros_like(out.product);
  return out;
}

Quantities backward_local(const std::vector<RankBatch>& all, const RankBatch& own) {
  auto out = right(all);
  out.sum = own.cotangent.sum(0);
  out.product = (own.cotangent * (own.input - out.average)).sum(0);
  return out;
}

Quantities backward_local_by_own_count(const std::vector<RankBatch>& all, const RankBatch& own) {
  auto out = backward_local(all, own);
  out.divisor = own.count;
  return out;
}

Quantities backward_count_from_own(const std::vector<RankBatch>& all, const RankBatch& own) {
  auto out = right(all);
  out.divisor = own_count_for_all(all, own);
  return out;
}

Quantities statistics_constant(const std::vector<RankBatch>& all, const RankBatch&) {
  auto out = right(all);
  out.divisor = std::numeric_limits<double>::infinity();
  return out;
}

Variant weighed(Weight weight) {
  return [weight](const std::vector<RankBatch>& all, const RankBatch&) {
    auto out = right(all);
    out.weight = weight;
    return out;
  };
}

}  // namespace

std::vector<RankBatch> batches_of(const Layer& c, int step) {
  std::vector<RankBatch> all;
  for (int rank = 0; rank < c.world.size; ++rank) {
    RankBatch own{
        by_channel(input_of(c, step, rank)), by_channel(cotangent_of(c, step, rank)), 0, {}, {}};
    own.count = static_cast<double>(own.input.size(0));
    own.average = own.input.sum(0) / std::max(own.count, 1.0);
    own.squared = (own.input - own.average).square().sum(0);
    all.push_back(own);
  }
  return all;
}

std::vector<WrongVariant> wrong_variants() {
  return {
      {Diagnosis{"local_statistics",
                 "every rank's own statistics: the batch was normalised without its peers"},
       local_statistics, /*shows_in_running_statistics=*/false},
      {Diagnosis{"average_of_averages",
                 "from the average of the ranks' own averages: batches of unequal size weigh "
                 "alike"},
       average_of_averages},
      {Diagnosis{"variance_between_ranks_missing",
                 "from the average of the ranks' variances: the distances between their "
                 "averages are missing"},
       without_variance_between_ranks},
      {Diagnosis{"inverse_deviations_averaged",
                 "from the average of the ranks' 1 / sqrt(variance + eps), where the variance of "
                 "the whole batch belongs"},
       inverse_deviations_averaged},
      {Diagnosis{"sum_left_out",
                 "an input gradient without the sum of the cotangents: one of the backward's two "
                 "sums is left out"},
       sum_left_out},
      {Diagnosis{"sum_left_out",
                 "an input gradient without the sum of the cotangents times the distances: one of "
                 "the backward's two sums is left out"},
       product_left_out},
      {Diagnosis{"count_from_own",
                 "the world size times the rank's own count in place of the count of all "
                 "ranks"},
       count_from_own},
      {Diagnosis{"running_count_from_own",
                 "a running variance for which every peer's count was taken to be the "
                 "rank's own"},
       running_count_from_own},
      {Diagnosis{"biased_variance",
                 "a running variance divided by the count, not by the count less one"},
       running_variance_biased},
      {Diagnosis{"momentum_reversed",
                 "running statistics that weigh the new batch by 1 - momentum"},
       weighed(Weight::reversed)},
      {Diagnosis{
           "momentum_cumulative",
           "running statistics that are averages over all batches, where a momentum is given"},
       weighed(Weight::cumulative)},
      {Diagnosis{"one_batch_behind", "running statistics that weigh a batch before it is counted"},
       weighed(Weight::one_batch_behind)},
      {Diagnosis{"backward_local",
                 "a backward that sums over the rank's own samples: what its peers' losses "
                 "owe to the common statistics is missing"},
       backward_local},
      {Diagnosis{"backward_local",
                 "a backward that averages over the rank's own samples: what its peers' "
                 "losses owe to the common statistics is missing"},
       backward_local_by_own_count},
      {Diagnosis{"backward_count_from_own",
                 "a backward that divides by the world size times the rank's own count"},
       backward_count_from_own},
      {Diagnosis{"statistics_constant",
                 "a backward for which average and variance are constants, not functions of "
                 "the input"},
       statistics_constant},
      {Diagnosis{"running_statistics_local",
                 "running statistics that moved towards the rank's own batch, not the "
                 "whole one"},
       running_statistics_local},
      {Diagnosis{"unbiased_variance",
                 "normalised by a variance divided by the count less one, not by the "
                 "count"},
       variance_unbiased},
      {Diagnosis{"eps_missing", "normalised without eps"}, eps_missing},
      {Diagnosis{"eps_beside_the_root",
                 "eps was added to the standard deviation, not to the variance"},
       eps_beside_the_root},
      {Diagnosis{"affine_gradients_summed",
                 "the sum over the ranks, where weight's and bias' gradients are the "
                 "rank's own"},
       affine_gradients_summed},
      {Diagnosis{"affine_gradients_averaged",
                 "the average over the ranks, where weight's and bias' gradients are the "
                 "rank's own"},
       affine_gradients_averaged},
  };
}

}  // namespace lockstep::scenarios::sync_batch_norm
