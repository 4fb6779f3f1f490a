#pragma once

#include "ddp/sync_batch_norm/kernels.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::on_device {

// kernels.h for CUDA tensors, by ATen's kernels for SyncBatchNorm, which compute in float (double
// for Double). They are called through the dispatcher: compiling this needs no CUDA, and any device
// that has these kernels works. Everything runs on the current stream, is Local, and does not wait
// for the device.

// The statistics that a rank sends: [2, channels], averages and, as the kernels expect, inverse
// deviations with an eps that is negligible against any variance that matters. Zeros for an empty
// batch.
at::Tensor statistics_of(const at::Tensor& input);

// [channels], in the dtype that the kernels compute in.
struct Moments {
  at::Tensor averages, variances, unbiased_variances;
};

// The moments of the whole batch, from every rank's statistics and number of values per channel;
// the sum of these numbers must be at least 2.
Moments merged(const std::vector<at::Tensor>& by_rank, const std::vector<std::int64_t>& counts);

at::Tensor normalise(const at::Tensor& input, const Normaliser& by);
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by);
at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by,
                          const at::Tensor& sums, std::int64_t count);

}  // namespace lockstep::on_device
