#include "ddp/sync_batch_norm/kernels.h"

#include "ddp/sync_batch_norm/channel_loops.h"
#include "ddp/sync_batch_norm/kernels_on_device.h"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace lockstep {

namespace {

using namespace loops;

bool has_channels_last(const at::Tensor& values) {
  return (values.dim() == 4 && values.is_contiguous(at::MemoryFormat::ChannelsLast)) ||
         (values.dim() == 5 && values.is_contiguous(at::MemoryFormat::ChannelsLast3d));
}

template <class Act>
void for_dtype_of(const at::Tensor& values, const Act& act) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, values.scalar_type(), "SyncBatchNorm",
                                  [&] { act(scalar_t{}); });
}

// Rounds to float first if Number is narrower than float, as ATen does.
template <class Number>
Number narrowed(double value) {
  if constexpr (std::is_same_v<Number, double>) {
    return value;
  } else {
    return static_cast<Number>(static_cast<float>(value));
  }
}

const double* by_channel(const at::Tensor& values) {
  return values.const_data_ptr<double>();
}

// (input - averages) * factors + shifts.
at::Tensor scaled(const at::Tensor& input, const at::Tensor& averages, const at::Tensor& factors,
                  const at::Tensor& shifts) {
  const at::Tensor out = at::empty_like(input);
  for_dtype_of(input, [&](auto zero) {
    using Number = decltype(zero);
    const Number* const from = input.const_data_ptr<Number>();
    Number* const into = out.mutable_data_ptr<Number>();
    const double* const average = by_channel(averages);
    const double* const factor = by_channel(factors);
    const double* const shift = by_channel(shifts);
    for_each_place(Grid(input), [=](std::int64_t offset, std::int64_t channel) {
      into[offset] = narrowed<Number>((static_cast<double>(from[offset]) - average[channel]) *
                                          factor[channel] +
                                      shift[channel]);
    });
  });
  return out;
}

// (gradient - gradient_averages - (input - averages) * distance_scales) * factors.
at::Tensor centred_gradient(const at::Tensor& gradient, const at::Tensor& input,
                            const at::Tensor& averages, const at::Tensor& gradient_averages,
                            const at::Tensor& distance_scales, const at::Tensor& factors) {
  const at::Tensor out = at::empty_like(input);
  for_dtype_of(input, [&](auto zero) {
    using Number = decltype(zero);
    const Number* const grad_output = gradient.const_data_ptr<Number>();
    const Number* const values = input.const_data_ptr<Number>();
    Number* const into = out.mutable_data_ptr<Number>();
    const double* const average = by_channel(averages);
    const double* const gradient_average = by_channel(gradient_averages);
    const double* const distance_scale = by_channel(distance_scales);
    const double* const factor = by_channel(factors);
    for_each_place(Grid(input), [=](std::int64_t offset, std::int64_t channel) {
      const double distance = static_cast<double>(values[offset]) - average[channel];
      into[offset] =
          narrowed<Number>((static_cast<double>(grad_output[offset]) - gradient_average[channel] -
                            distance * distance_scale[channel]) *
                           factor[channel]);
    });
  });
  return out;
}

at::Tensor factors_of(const Normaliser& by) {
  return by.weight.defined() ? by.inverse_deviations.mul(by.weight.to(at::kDouble))
                             : by.inverse_deviations;
}

}  // namespace

at::Tensor laid_out(const at::Tensor& given) {
  const at::Tensor values = given.resolve_neg();
  return has_channels_last(values) ? values : values.contiguous();
}

at::Tensor laid_out_like(const at::Tensor& given, const at::Tensor& like) {
  const at::Tensor values = given.resolve_neg();
  if (values.strides() == like.strides()) return values;
  if (like.is_contiguous()) return values.contiguous();
  return values.contiguous(like.dim() == 4 ? at::MemoryFormat::ChannelsLast
                                           : at::MemoryFormat::ChannelsLast3d);
}

BatchStatistics statistics_of(const at::Tensor& input) {
  const Grid grid(input);
  const auto channels = static_cast<std::size_t>(grid.channels);
  BatchStatistics out{.count = grid.outer * grid.inner,
                      .averages = std::vector<double>(channels),
                      .squared_distances = std::vector<double>(channels)};
  if (out.count == 0) return out;
  const auto count = static_cast<double>(out.count);
  for_dtype_of(input, [&](auto zero) {
    using Number = decltype(zero);
    const Number* const values = input.const_data_ptr<Number>();
    double* const averages = out.averages.data();
    double* const squared = out.squared_distances.data();
    sum_by_channel<1>(
        grid,
        [=](std::int64_t offset, std::int64_t) {
          return Sums<1>{static_cast<double>(values[offset])};
        },
        [=](std::int64_t channel, const Sums<1>& sums) { averages[channel] = sums[0] / count; });
    sum_by_channel<1>(
        grid,
        [=](std::int64_t offset, std::int64_t channel) {
          const double distance = static_cast<double>(values[offset]) - averages[channel];
          return Sums<1>{distance * distance};
        },
        [=](std::int64_t channel, const Sums<1>& sums) { squared[channel] = sums[0]; });
  });
  return out;
}

Normaliser normaliser_of(const BatchStatistics& statistics, double eps, const at::Tensor& weight,
                         const at::Tensor& bias) {
  // An empty batch has no variance; a divisor of 1 gives it one of 0.
  const std::int64_t divisor = std::max(statistics.count, std::int64_t{1});
  const auto doubles = [](const std::vector<double>& values) {
    return at::tensor(values, at::TensorOptions(at::kDouble));
  };
  const at::Tensor inverse = doubles(variances(statistics, divisor)).add_(eps).rsqrt_();
  return {.averages = doubles(statistics.averages),
          .inverse_deviations = inverse,
          .weight = weight,
          .bias = bias};
}

at::Tensor normalise(const at::Tensor& input, const Normaliser& by) {
  if (!input.is_cpu()) return on_device::normalise(input, by);
  const at::Tensor shifts =
      by.bias.defined() ? by.bias.to(at::kDouble).contiguous() : at::zeros_like(by.averages);
  return scaled(input, by.averages, factors_of(by), shifts);
}

at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input,
                         const Normaliser& by) {
  if (!input.is_cpu()) return on_device::gradient_sums(gradient, input, by);
  const Grid grid(input);
  const at::Tensor out = at::zeros({2, grid.channels}, at::kDouble);
  for_dtype_of(input, [&](auto zero) {
    using Number = decltype(zero);
    const Number* const grad_output = gradient.const_data_ptr<Number>();
    const Number* const values = input.const_data_ptr<Number>();
    const double* const average = by_channel(by.averages);
    double* const sums = out.mutable_data_ptr<double>();
    sum_by_channel<2>(
        grid,
        [=](std::int64_t offset, std::int64_t channel) {
          const auto each = static_cast<double>(grad_output[offset]);
          return Sums<2>{each, each * (static_cast<double>(values[offset]) - average[channel])};
        },
        [=](std::int64_t channel, const Sums<2>& both) {
          sums[channel] = both[0];
          sums[grid.channels + channel] = both[1];
        });
  });
  return out;
}

at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by,
                          const at::Tensor& sums, std::int64_t count) {
  if (!input.is_cpu()) return on_device::input_gradient(gradient, input, by, sums, count);
  const at::Tensor averaged = sums.div(static_cast<double>(count));
  const at::Tensor distance_scales =
      averaged[1].mul(by.inverse_deviations).mul(by.inverse_deviations);
  return centred_gradient(gradient, input, by.averages, averaged[0], distance_scales,
                          factors_of(by));
}

}  // namespace lockstep
