#include "ddp/sync_batch_norm/kernels_on_device.h"

#include <ATen/AccumulateType.h>
#include <ATen/Functions.h>

#include <optional>

namespace lockstep::on_device {

namespace {

// Distinguishes a variance of zero from one that is too large for the format.
constexpr double kEps = 1e-30;

// Weight or bias, converted to the dtype that the kernels compute in.
std::optional<at::Tensor> beside(const at::Tensor& values, const Normaliser& by) {
  if (!values.defined()) return std::nullopt;
  return values.to(by.averages.scalar_type());
}

}  // namespace

at::Tensor statistics_of(const at::Tensor& input) {
  if (input.numel() == 0) {
    const auto dtype = at::toAccumulateType(input.scalar_type(), /*is_cuda=*/true);
    return at::zeros({2, input.size(1)}, input.options().dtype(dtype));
  }
  const auto [averages, inverse] = at::batch_norm_stats(input, kEps);
  return at::stack({averages, inverse});
}

// The kernel moves running statistics towards those of the batch; with momentum 1 they become the
// batch's. It takes the dtype of the counts from its first argument, which it does not read: half
// would round them.
Moments merged(const std::vector<at::Tensor>& by_rank, const std::vector<std::int64_t>& counts) {
  std::vector<at::Tensor> rows;
  std::vector<double> values;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (counts[rank] == 0) continue;
    rows.push_back(by_rank[rank]);
    values.push_back(static_cast<double>(counts[rank]));
  }
  const at::Tensor all = at::stack(rows, /*dim=*/1);
  const at::Tensor weights = at::tensor(values, at::TensorOptions(all.scalar_type()))
                                 .to(all.device(), /*non_blocking=*/true);
  const at::Tensor averages = at::zeros_like(rows.front()[0]);
  const at::Tensor unbiased = at::zeros_like(averages);
  const auto merged =
      at::batch_norm_gather_stats_with_counts(all[0], all[0].contiguous(), all[1].contiguous(),
                                              averages, unbiased, /*momentum=*/1.0, kEps, weights);
  return {.averages = std::get<0>(merged),
          .variances = std::get<1>(merged).pow(-2).sub(kEps).clamp_min(0.0),
          .unbiased_variances = unbiased};
}

at::Tensor normalise(const at::Tensor& input, const Normaliser& by) {
  if (input.numel() == 0) return at::empty_like(input);
  return at::batch_norm_elemt(input, beside(by.weight, by), beside(by.bias, by), by.averages,
                              by.inverse_deviations, /*eps=*/0.0);
}

at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input,
                         const Normaliser& by) {
  if (input.numel() == 0) return at::zeros({2, input.size(1)}, by.averages.options());
  const auto sums = at::batch_norm_backward_reduce(gradient, input, by.averages,
                                                   by.inverse_deviations, beside(by.weight, by),
                                                   /*input_g=*/true, /*weight_g=*/false,
                                                   /*bias_g=*/false);
  return at::stack({std::get<0>(sums), std::get<1>(sums)});
}

at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by,
                          const at::Tensor& sums, std::int64_t count) {
  if (input.numel() == 0) return at::empty_like(input);
  // The kernel sums the ranks' counts, each an int.
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  at::Tensor counts = at::full({count / kMost + 1}, kMost, input.options().dtype(at::kInt));
  counts.narrow(0, count / kMost, 1).fill_(count % kMost);
  return at::batch_norm_backward_elemt(gradient, input, by.averages, by.inverse_deviations,
                                       beside(by.weight, by), sums[0], sums[1], counts);
}

}  // namespace lockstep::on_device
