#pragma once

#include "ddp/sync_batch_norm/statistics.h"

#include <ATen/core/Tensor.h>

namespace lockstep {

// Arithmetic on one rank's values. Inputs are [samples, channels, ...] of Half, BFloat16, Float or
// Double, laid_out(), and may be empty. On the CPU the loops are ours, all in double precision, so
// that sums of narrow values neither overflow nor lose the count, and results do not depend on the
// number of threads. On devices they are ATen's kernels (kernels_on_device.h). Everything is Local
// and does not wait for a device.

// The same values in a layout that the loops can read: unchanged if contiguous or channels last,
// otherwise a contiguous copy; or in the strides of `like`, which is laid out already.
at::Tensor laid_out(const at::Tensor& values);
at::Tensor laid_out_like(const at::Tensor& values, const at::Tensor& like);

// Averages, and squared distances from them, of a CPU tensor.
BatchStatistics statistics_of(const at::Tensor& input);

// The statistics and parameters that normalise a batch, on the input's device, [channels].
// Statistics are Double on the CPU, elsewhere of the dtype that ATen's kernels compute in. `weight`
// and `bias` may be undefined.
struct Normaliser {
  at::Tensor averages, inverse_deviations, weight, bias;
};
// From the `statistics` of the whole batch, with 1 / sqrt(variance + eps) of the biased variance.
// On the CPU.
Normaliser normaliser_of(const BatchStatistics& statistics, double eps, const at::Tensor& weight,
                         const at::Tensor& bias);

// (input - averages) * inverse_deviations * weight + bias, channel by channel, in the input's dtype
// and strides.
at::Tensor normalise(const at::Tensor& input, const Normaliser& by);

// [2, channels], in the dtype of averages: sums of the gradient, and of the gradient times
// (input - averages). The gradient is laid out like the input.
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by);

// The gradient of the input, from the gradient_sums() over all `count` values per channel of the
// batch.
at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by,
                          const at::Tensor& sums, std::int64_t count);

}  // namespace lockstep
