#include "harness/accelerator/own_kernel.h"

#include "harness/accelerator/devices.h"
#include "harness/accelerator/ledger.h"

namespace lockstep::accelerator {

OwnKernel::~OwnKernel() {
  if (device_) Ledger::instance().submit(current_stream(device_->index()), name_, accesses_);
}

at::Tensor OwnKernel::touched(const at::Tensor& tensor, bool writes) {
  if (!device_ && tensor.device().is_privateuseone()) device_ = tensor.device();
  TORCH_CHECK(tensor.device() == device_,
              "Expected all tensors to be on the same device, but found ", "at least two devices, ",
              device_.value_or(c10::Device(at::kPrivateUse1)), " and ", tensor.device(), "! (in '",
              name_, "')");
  add_access(accesses_, tensor, writes);
  return aliases_.of(tensor);
}

at::Tensor OwnKernel::made(const at::Tensor& result) {
  bool is_new = false;
  at::Tensor out = aliases_.on_device(result, device_->index(), is_new);
  add_access(accesses_, out, /*writes=*/true);
  return out;
}

}  // namespace lockstep::accelerator
