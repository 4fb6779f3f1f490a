#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::accelerator {

// `from` to `into`, of which at least one is on a device, in CUDA's manner: on the current stream,
// or between two devices on the source's, which the target's waits for before and after. One to or
// from the host holds that up, if it is blocking or ends in memory that is not page-locked.
at::Tensor copy_tensor(const at::Tensor& from, const at::Tensor& into, bool non_blocking);

}  // namespace lockstep::accelerator
