#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lockstep::accelerator {

// Runs any operation on device tensors by its CPU kernel, on their aliases: results are tensors of
// that device; in-place and out= arguments and views keep their identity. Throws c10::Error if
// tensors are on two devices (except single numbers on the CPU) or if LibTorch has no CPU kernel.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// The same for an operation that takes or makes sparse tensors.
void run_sparse_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace lockstep::accelerator
