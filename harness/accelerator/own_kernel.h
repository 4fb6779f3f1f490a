#pragma once

#include "harness/accelerator/aliases.h"
#include "harness/accelerator/stream_order.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::accelerator {

// A device operation that is implemented here, on CPU aliases of its tensors. While it lives
// autograd is off; its end submits the operation to the device's current stream. Tensors of another
// device are refused.
class OwnKernel {
 public:
  explicit OwnKernel(std::string name) : name_(std::move(name)) {}
  ~OwnKernel();
  OwnKernel(const OwnKernel&) = delete;
  OwnKernel& operator=(const OwnKernel&) = delete;

  at::Tensor read(const at::Tensor& tensor) { return touched(tensor, /*writes=*/false); }
  at::Tensor written(const at::Tensor& tensor) { return touched(tensor, /*writes=*/true); }
  // A CPU result as a device tensor.
  at::Tensor made(const at::Tensor& result);

 private:
  at::Tensor touched(const at::Tensor& tensor, bool writes);

  const at::AutoDispatchBelowADInplaceOrView below_autograd_;
  std::string name_;
  std::optional<c10::Device> device_;
  std::vector<Access> accesses_;
  Aliases aliases_;
};

}  // namespace lockstep::accelerator
