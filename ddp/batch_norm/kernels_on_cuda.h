#pragma once

#include "ddp/batch_norm/kernels.h"

namespace lockstep::on_cuda {

// kernels.h for tensors on a CUDA device, by ATen's kernels for SyncBatchNorm. They are reached
// through the dispatcher: nothing of CUDA is needed to compile this, and without a CUDA LibTorch
// there are no such tensors.
BatchStatistics statistics_of(const at::Tensor& input);
at::Tensor normalise(const at::Tensor& input, const Normaliser& by);
at::Tensor gradient_sums(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by);
at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input, const Normaliser& by,
                          const at::Tensor& sums, std::int64_t count);

}  // namespace lockstep::on_cuda
