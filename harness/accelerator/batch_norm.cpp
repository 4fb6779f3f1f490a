#include "harness/accelerator/batch_norm.h"

#include "harness/accelerator/own_kernel.h"

#include <ATen/AccumulateType.h>
#include <ATen/Functions.h>

#include <optional>
#include <tuple>
#include <vector>

namespace lockstep::accelerator {

namespace {

using Optional = std::optional<at::Tensor>;
using Pair = std::tuple<at::Tensor, at::Tensor>;

bool is_there(const Optional& tensor) {
  return tensor && tensor->defined();
}

at::ScalarType accumulated(const at::Tensor& tensor) {
  return at::toAccumulateType(tensor.scalar_type(), /*is_cuda=*/true);
}

at::Tensor doubles(const at::Tensor& tensor) {
  return tensor.to(at::kDouble);
}

// One value for each channel, to be combined with values of [samples, channels, ...].
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(like.dim()), 1);
  sizes[1] = values.numel();
  return doubles(values).view(sizes);
}

at::Tensor sum_by_channel(const at::Tensor& values) {
  return values.transpose(0, 1).reshape({values.size(1), -1}).sum(1);
}

at::Tensor in_layout_of(const at::Tensor& values, const at::Tensor& like) {
  return at::empty_like(like, like.options().memory_format(like.suggest_memory_format()))
      .copy_(values);
}

at::Tensor inverse_deviation(const at::Tensor& variance, double eps) {
  return variance.add(eps).rsqrt();
}

Pair stats(const at::Tensor& input, double eps) {
  OwnKernel kernel("batch_norm_stats");
  const at::Tensor values = doubles(kernel.read(input));
  const auto count = static_cast<double>(values.numel() / values.size(1));
  const at::Tensor average = sum_by_channel(values) / count;
  const at::Tensor variance =
      sum_by_channel((values - by_channel(average, values)).square()) / count;
  return {kernel.made(average.to(accumulated(input))),
          kernel.made(inverse_deviation(variance, eps).to(accumulated(input)))};
}

void move_towards(const at::Tensor& running, const at::Tensor& values, double momentum) {
  running.copy_(doubles(running) * (1 - momentum) + values * momentum);
}

// `average` and `inverse` are [ranks, channels], `counts` [ranks].
Pair gather_stats_with_counts(const at::Tensor& input, const at::Tensor& average,
                              const at::Tensor& inverse, const Optional& running_average,
                              const Optional& running_variance, double momentum, double eps,
                              const at::Tensor& counts) {
  OwnKernel kernel("batch_norm_gather_stats_with_counts");
  const at::Tensor count = doubles(kernel.read(counts)).view({-1, 1});
  const at::Tensor averages = doubles(kernel.read(average));
  const at::Tensor variances = doubles(kernel.read(inverse)).square().reciprocal() - eps;
  const at::Tensor total = count.sum();
  const at::Tensor whole = (averages * count).sum(0) / total;
  const at::Tensor squared = ((variances + (averages - whole).square()) * count).sum(0);
  if (is_there(running_average)) {
    move_towards(kernel.written(*running_average), whole, momentum);
  }
  if (is_there(running_variance)) {
    move_towards(kernel.written(*running_variance), squared / (total - 1), momentum);
  }
  return {kernel.made(whole.to(accumulated(input))),
          kernel.made(inverse_deviation(squared / total, eps).to(accumulated(input)))};
}

at::Tensor elemt(const at::Tensor& input, const Optional& weight, const Optional& bias,
                 const at::Tensor& average, const at::Tensor& inverse, double) {
  OwnKernel kernel("batch_norm_elemt");
  const at::Tensor values = kernel.read(input);
  at::Tensor out = (doubles(values) - by_channel(kernel.read(average), values)) *
                   by_channel(kernel.read(inverse), values);
  if (is_there(weight)) out = out * by_channel(kernel.read(*weight), values);
  if (is_there(bias)) out = out + by_channel(kernel.read(*bias), values);
  return kernel.made(in_layout_of(out, values));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_reduce(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& average,
    const at::Tensor& inverse, const Optional& weight, bool wants_input, bool wants_weight,
    bool wants_bias) {
  OwnKernel kernel("batch_norm_backward_reduce");
  const at::Tensor values = kernel.read(input);
  const at::Tensor slopes = doubles(kernel.read(gradient));
  const at::Tensor distances = doubles(values) - by_channel(kernel.read(average), values);
  const at::Tensor sum = sum_by_channel(slopes);
  const at::Tensor sum_of_products = sum_by_channel(slopes * distances);
  const at::Tensor inverses = doubles(kernel.read(inverse));
  at::Tensor of_input, of_products, of_weight, of_bias;
  if (wants_input) {
    of_input = kernel.made(sum.to(average.scalar_type()));
    of_products = kernel.made(sum_of_products.to(average.scalar_type()));
  }
  if (is_there(weight) && wants_weight)
    of_weight = kernel.made((sum_of_products * inverses).to(weight->scalar_type()));
  if (is_there(weight) && wants_bias) of_bias = kernel.made(sum.to(weight->scalar_type()));
  return {of_input, of_products, of_weight, of_bias};
}

at::Tensor backward_elemt(const at::Tensor& gradient, const at::Tensor& input,
                          const at::Tensor& average, const at::Tensor& inverse,
                          const Optional& weight, const at::Tensor& sum,
                          const at::Tensor& sum_of_products, const at::Tensor& counts) {
  OwnKernel kernel("batch_norm_backward_elemt");
  const at::Tensor values = kernel.read(input);
  const at::Tensor count = doubles(kernel.read(counts)).sum();
  const at::Tensor inverses = by_channel(kernel.read(inverse), values);
  const at::Tensor average_slope = by_channel(kernel.read(sum), values) / count;
  const at::Tensor bend =
      by_channel(kernel.read(sum_of_products), values) / count * inverses.square();
  const at::Tensor distances = doubles(values) - by_channel(kernel.read(average), values);
  at::Tensor out = (doubles(kernel.read(gradient)) - average_slope - distances * bend) * inverses;
  if (is_there(weight)) out = out * by_channel(kernel.read(*weight), values);
  return kernel.made(in_layout_of(out, values));
}

}  // namespace

void register_batch_norm(torch::Library& library) {
  library.impl("batch_norm_stats", &stats);
  library.impl("batch_norm_gather_stats_with_counts", &gather_stats_with_counts);
  library.impl("batch_norm_elemt", &elemt);
  library.impl("batch_norm_backward_reduce", &backward_reduce);
  library.impl("batch_norm_backward_elemt", &backward_elemt);
}

}  // namespace lockstep::accelerator
