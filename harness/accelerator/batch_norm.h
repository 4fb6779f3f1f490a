#pragma once

#include <torch/library.h>

namespace lockstep::accelerator {

// Registers the kernels of ATen for SyncBatchNorm, which LibTorch has for CUDA but not for the CPU,
// written from their definitions and computed in double. Results have the dtypes and shapes of
// CUDA's: statistics and sums of numbers narrower than float are float.
void register_batch_norm(torch::Library& library);

}  // namespace lockstep::accelerator
