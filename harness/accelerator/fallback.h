#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lockstep::accelerator {

// Any operation, for tensors of a device, by its kernel for the CPU on aliases of them: results are
// tensors of that device, in-place and out= arguments and views stay what they are. Throws
// c10::Error if tensors are on two devices (single numbers on the CPU aside) or if LibTorch has no
// kernel for the CPU.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// The same for one that takes or makes sparse tensors.
void run_sparse_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace lockstep::accelerator
