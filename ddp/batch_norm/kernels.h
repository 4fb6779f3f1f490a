#pragma once

#include "ddp/batch_norm/statistics.h"

#include <ATen/core/Tensor.h>

namespace lockstep {

// The loops over one rank's values. Inputs are [samples, channels, ...] of Half, BFloat16, Float or
// Double, on the CPU, laid_out(), and may be empty; what is by channel is Double, [channels], on
// the CPU. All arithmetic is in double precision, so that sums of narrow values neither overflow
// nor lose the count. The number of threads changes no bit of a result. Everything is Local.

// The same values where the loops can read them: as they are if they are contiguous or channels
// last, otherwise a contiguous copy. `like`, given, is laid out already: then in its strides.
at::Tensor laid_out(const at::Tensor& values);
at::Tensor laid_out_like(const at::Tensor& values, const at::Tensor& like);

// Averages, and squared distances from them.
BatchStatistics statistics_of(const at::Tensor& input);

// (input - averages) * factors + shifts, channel by channel, in the input's dtype and strides.
at::Tensor scaled(const at::Tensor& input, const at::Tensor& averages, const at::Tensor& factors,
                  const at::Tensor& shifts);

// [2, channels]: sums of the gradient, and of the gradient times (input - averages).
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input,
                         const at::Tensor& averages);

// (gradient - offsets - (input - averages) * slopes) * factors, as `scaled`.
at::Tensor bent(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& averages,
                const at::Tensor& offsets, const at::Tensor& slopes, const at::Tensor& factors);

}  // namespace lockstep
