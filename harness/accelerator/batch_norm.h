#pragma once

#include <torch/library.h>

namespace lockstep::accelerator {

// Registers ATen's kernels for SyncBatchNorm, which LibTorch has for CUDA and not for the CPU,
// written from their definitions and computed in double. Results have the dtypes and shapes of
// CUDA's: of numbers narrower than float, statistics and sums are float.
void register_batch_norm(torch::Library& library);

}  // namespace lockstep::accelerator
