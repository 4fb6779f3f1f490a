#pragma once

#include "ddp/batch_norm/kernels.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::on_device {

// kernels.h for tensors on CUDA, by ATen's kernels for SyncBatchNorm, which compute in float
// (double for Double). They are reached through the dispatcher: nothing of CUDA is needed to
// compile this, and any device that has these kernels will do. Everything is work for the current
// stream, Local, and does not wait for the device.

// What a rank tells the others of its batch: [2, channels], averages and, so that the kernels can
// read them, reciprocal deviations with an eps that is nothing beside any variance that matters.
// Zeros of an empty batch.
at::Tensor statistics_of(const at::Tensor& input);

// [channels], of the dtype that the kernels compute in.
struct Moments {
  at::Tensor averages, variances, unbiased_variances;
};

// Of the whole batch, from every rank's statistics and number of values a channel, of which at
// least one is not 0 and the sum not 1.
Moments merged(const std::vector<at::Tensor>& by_rank, const std::vector<std::int64_t>& counts);

at::Tensor normalise(const at::Tensor& input, const Normaliser& by);
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by);
at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by,
                          const at::Tensor& sums, std::int64_t count);

}  // namespace lockstep::on_device
