#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::accelerator {

// Copies `from` to `into`, at least one of which is on a device, as CUDA does: on the current
// stream, or between two devices on the source's, with waits between it and the target's before and
// after. A copy to or from the host blocks the host if it is blocking or ends in memory that is not
// page-locked.
at::Tensor copy_tensor(const at::Tensor& from, const at::Tensor& into, bool non_blocking);

}  // namespace lockstep::accelerator
