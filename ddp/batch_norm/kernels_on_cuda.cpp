#include "ddp/batch_norm/kernels_on_cuda.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace lockstep::on_cuda {

namespace {

std::vector<double> on_host(const at::Tensor& values) {
  const at::Tensor plain = values.to(at::kCPU, at::kDouble);
  const auto* const data = plain.const_data_ptr<double>();
  return {data, data + plain.numel()};
}

// In the dtype that the kernels compute in, which weight and bias of another one are brought to.
std::optional<at::Tensor> beside(const at::Tensor& values, const Normaliser& by) {
  if (!values.defined()) return std::nullopt;
  return values.to(by.averages.scalar_type());
}

}  // namespace

// The kernel tells averages and reciprocal deviations. An eps that is nothing beside any variance
// that matters tells a variance of zero from one that is too large for the format.
BatchStatistics statistics_of(const at::Tensor& input) {
  const std::int64_t channels = input.size(1);
  const auto size = static_cast<std::size_t>(channels);
  BatchStatistics out{.count = input.numel() / channels,
                      .averages = std::vector<double>(size),
                      .squared_distances = std::vector<double>(size)};
  if (out.count == 0) return out;
  constexpr double kEps = 1e-30;
  const auto [average, inverse] = at::batch_norm_stats(input, kEps);
  out.averages = on_host(average);
  out.squared_distances = on_host(inverse);
  for (double& each : out.squared_distances)
    each = static_cast<double>(out.count) * std::max(1 / (each * each) - kEps, 0.0);
  return out;
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
  // The kernel adds up what it takes for the ranks' counts, each an int.
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  at::Tensor counts = at::full({count / kMost + 1}, kMost, input.options().dtype(at::kInt));
  counts.narrow(0, count / kMost, 1).fill_(count % kMost);
  return at::batch_norm_backward_elemt(gradient, input, by.averages, by.inverse_deviations,
                                       beside(by.weight, by), sums[0], sums[1], counts);
}

}  // namespace lockstep::on_cuda
