// CUDA's and NCCL's headers, with what they declare visible to programs that load this library.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#include <nccl.h>
#pragma GCC visibility pop

#define LOCKSTEP_FAKE_CUDA_API extern "C" __attribute__((visibility("default")))
