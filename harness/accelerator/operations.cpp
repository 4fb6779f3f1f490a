#include "harness/accelerator/operations.h"

#include "harness/accelerator/aliases.h"
#include "harness/accelerator/batch_norm.h"
#include "harness/accelerator/copies.h"
#include "harness/accelerator/devices.h"
#include "harness/accelerator/fallback.h"
#include "harness/accelerator/ledger.h"
#include "harness/accelerator/memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <deque>

namespace lockstep::accelerator {

namespace {

constexpr c10::DispatchKeySet kOnDevice(c10::DispatchKey::PrivateUse1);

c10::Device or_current(std::optional<c10::Device> device) {
  if (device && device->has_index()) return *device;
  return {c10::DeviceType::PrivateUse1, current_stream(-1).device_index()};
}

at::ScalarType or_default(std::optional<at::ScalarType> dtype) {
  return dtype.value_or(at::get_default_dtype_as_scalartype());
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<c10::Device> device,
                 std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided,
              "the simulated accelerator has no tensors of layout ", *layout);
  TORCH_CHECK(!pinned.value_or(false), "only memory of the CPU can be pinned");
  const c10::DeviceGuard guard(or_current(device));
  return at::detail::empty_generic(sizes, device_memory(), kOnDevice, or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<c10::Device> device, std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "only memory of the CPU can be pinned");
  const c10::DeviceGuard guard(or_current(device));
  return at::detail::empty_strided_generic(sizes, strides, device_memory(), kOnDevice,
                                           or_default(dtype));
}

// LibTorch's CPU version is right for any memory that the host can write.
at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                      std::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  return at::native::resize_(self, sizes, format);
}

at::Tensor& set_to_storage(at::Tensor& self, at::Storage storage, std::int64_t offset,
                           c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  const c10::DeviceGuard guard(self.device());
  return at::native::set_storage_cpu_(self, std::move(storage), offset, sizes, strides);
}

at::Tensor& set_to_whole_storage(at::Tensor& self, at::Storage storage) {
  const auto size = static_cast<std::int64_t>(storage.nbytes() / self.itemsize());
  return set_to_storage(self, std::move(storage), 0, {size}, {});
}

at::Tensor& set_to_tensor(at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device() && self.dtype() == other.dtype(),
              "set_: expected a tensor of ", self.device(), " and ", self.dtype(), ", got one of ",
              other.device(), " and ", other.dtype());
  return set_to_storage(self, other.storage(), other.storage_offset(), other.sizes(),
                        other.strides());
}

at::Tensor& set_to_nothing(at::Tensor& self) {
  const at::Tensor nothing = at::empty({0}, self.options());
  return set_to_storage(self, nothing.storage(), 0, {0}, {});
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& into, bool non_blocking) {
  return copy_tensor(from, into, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& into) {
  into.resize_(from.sizes());
  return copy_tensor(from, into, /*non_blocking=*/false);
}

at::Scalar number_of(const at::Tensor& self) {
  const c10::Stream stream = current_stream(self.get_device());
  std::vector<Access> accesses;
  add_access(accesses, self, /*writes=*/false);
  Ledger& ledger = Ledger::instance();
  ledger.submit(stream, "item", accesses);
  ledger.host_knows(ledger.record(stream));
  ledger.host_waited("item");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::_local_scalar_dense(alias_on_cpu(self));
}

void use_on_stream(at::Tensor& self, c10::Stream stream) {
  if (self.is_sparse()) {
    at::Tensor indices = self._indices(), values = self._values();
    use_on_stream(indices, stream);
    use_on_stream(values, stream);
    return;
  }
  if (self.storage().data() != nullptr) Ledger::instance().use_on(self.storage().data(), stream);
}

// True if one tensor can take over the other's implementation, as Module::to() does it. LibTorch
// lists the device types for which that holds, and this is none of them.
bool can_take_insides_of(const at::Tensor& self, const at::Tensor& from) {
  return self.layout() == from.layout();
}

// LibTorch finds no kernel for an unknown device, and calls these two instead.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                       c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, std::int64_t groups) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  torch::jit::Stack stack{input,    weight,     bias,           stride, padding,
                          dilation, transposed, output_padding, groups};
  run_on_cpu(op, &stack);
  return stack.front().toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
    c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> wanted) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
  const std::optional<std::vector<std::int64_t>> bias_sizes =
      wanted[2] ? std::make_optional(std::vector<std::int64_t>{gradient.size(1)}) : std::nullopt;
  torch::jit::Stack stack{gradient, input,      weight,         bias_sizes, stride, padding,
                          dilation, transposed, output_padding, groups,     wanted};
  run_on_cpu(op, &stack);
  return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
}

// Never destroyed: tensors may outlive the statics of the program.
torch::Library& library(const char* name_space, c10::DispatchKey key) {
  static auto& all = *new std::deque<torch::Library>;
  return all.emplace_back(torch::Library::IMPL, name_space, key, __FILE__, __LINE__);
}

// Where LibTorch has a composite kernel for all devices it would not use the CPU's kernel; the
// composite one makes several operations of one, and knows no sparse tensors of a device that
// LibTorch does not know.
template <class MakeKernel>
void prefer_kernels_for(c10::DispatchKey cpu, torch::Library& into, const MakeKernel& make_kernel) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || name.getNamespace() != "aten" || !op->hasKernelForDispatchKey(cpu)) continue;
    const bool has_another =
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
    if (!has_another) continue;
    const std::string full =
        name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    into.impl(full.c_str(), make_kernel());
  }
}

}  // namespace

void register_operations() {
  library("_", c10::DispatchKey::PrivateUse1)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  library("_", c10::DispatchKey::SparsePrivateUse1)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&run_sparse_on_cpu>());
  torch::Library& dense = library("aten", c10::DispatchKey::PrivateUse1);
  dense.impl("empty.memory_format", &empty);
  dense.impl("empty_strided", &empty_strided);
  dense.impl("as_strided", &as_strided);
  dense.impl("view", &at::native::view);
  dense.impl("_reshape_alias", &at::native::_reshape_alias);
  dense.impl("unfold", &at::native::unfold);
  dense.impl("resize_", &resize);
  dense.impl("set_.source_Storage_storage_offset", &set_to_storage);
  dense.impl("set_.source_Storage", &set_to_whole_storage);
  dense.impl("set_.source_Tensor", &set_to_tensor);
  dense.impl("set_", &set_to_nothing);
  dense.impl("_copy_from", &copy_from);
  dense.impl("_copy_from_and_resize", &copy_from_and_resize);
  dense.impl("_local_scalar_dense", &number_of);
  dense.impl("record_stream", &use_on_stream);
  dense.impl("convolution_overrideable", &convolution);
  dense.impl("convolution_backward_overrideable", &convolution_backward);
  register_batch_norm(dense);
  dense.impl("_has_compatible_shallow_copy_type", &can_take_insides_of);
  // A copy reads conjugates and negatives as they are; resolving them first would be another copy.
  for (const auto lazy : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    library("aten", lazy).impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
  prefer_kernels_for(c10::DispatchKey::CPU, dense,
                     [] { return torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>(); });
  torch::Library& sparse = library("aten", c10::DispatchKey::SparsePrivateUse1);
  sparse.impl("record_stream", &use_on_stream);
  prefer_kernels_for(c10::DispatchKey::SparseCPU, sparse, [] {
    return torch::CppFunction::makeFromBoxedFunction<&run_sparse_on_cpu>();
  });
}

}  // namespace lockstep::accelerator
