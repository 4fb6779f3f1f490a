#pragma once

#include "ddp/batch_norm/statistics.h"

#include <ATen/core/Tensor.h>

namespace lockstep {

// Arithmetic on one rank's values. Inputs are [samples, channels, ...] of Half, BFloat16, Float or
// Double, laid_out(), and may be empty. On the CPU the loops are ours, all in double precision, so
// that sums of narrow values neither overflow nor lose the count, and the number of threads changes
// no bit of a result. On devices they are ATen's own kernels (kernels_on_device.h). Everything is
// Local and does not wait for a device.

// The same values where the loops can read them: as they are if they are contiguous or channels
// last, otherwise a contiguous copy. `like`, given, is laid out already: then in its strides.
at::Tensor laid_out(const at::Tensor& values);
at::Tensor laid_out_like(const at::Tensor& values, const at::Tensor& like);

// Averages, and squared distances from them. On the CPU.
BatchStatistics statistics_of(const at::Tensor& input);

// What a batch is normalised by, on the input's device: Double, [channels], on the CPU; what
// ATen's kernels compute in elsewhere. `weight` and `bias` may be undefined.
struct Normaliser {
  at::Tensor averages, inverse_deviations, weight, bias;
};
// `statistics` are those of the whole batch; 1 / sqrt(variance + eps), with the biased variance. On
// the CPU.
Normaliser normaliser_of(const BatchStatistics& statistics, double eps, const at::Tensor& weight,
                         const at::Tensor& bias);

// (input - averages) * inverse_deviations * weight + bias, channel by channel, in the input's dtype
// and strides.
at::Tensor normalise(const at::Tensor& input, const Normaliser& by);

// [2, channels], in the dtype of averages: sums of the gradient, and of the gradient times
// (input - averages). The gradient is laid out like the input.
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by);

// The gradient of the input, from such sums over all `count` values a channel of the batch.
at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by,
                          const at::Tensor& sums, std::int64_t count);

}  // namespace lockstep
