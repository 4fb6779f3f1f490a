#include "harness/accelerator/aliases.h"

#include "harness/accelerator/memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

namespace lockstep::accelerator {

namespace {

constexpr c10::DispatchKeySet kDenseOnDevice(c10::DispatchKey::PrivateUse1);
constexpr c10::DispatchKeySet kSparseOnDevice(c10::DispatchKey::SparsePrivateUse1);
constexpr c10::DispatchKeySet kLazyBits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

c10::Storage cpu_storage_over(const c10::Storage& storage) {
  c10::DataPtr data(
      storage.data_ptr().get(), new c10::Storage(storage),
      [](void* owner) { delete static_cast<c10::Storage*>(owner); }, c10::Device(at::kCPU));
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data),
                      c10::GetCPUAllocator(), /*resizable=*/true);
}

// A tensor with the same shape, dtype and lazy bits on another storage.
at::Tensor like_on(const at::Tensor& tensor, const c10::Storage& storage,
                   c10::DispatchKeySet keys) {
  const c10::DispatchKeySet lazy = tensor.key_set() & kLazyBits;
  at::Tensor out =
      at::detail::make_tensor<at::TensorImpl>(c10::Storage(storage), keys | lazy, tensor.dtype());
  out.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    out.unsafeGetTensorImpl()->set_wrapped_number(true);
  return out;
}

at::SparseTensorImpl* sparse_impl(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

void set_sparse_parts(const at::Tensor& tensor, const at::Tensor& indices, const at::Tensor& values,
                      const at::Tensor& like) {
  at::SparseTensorImpl* const impl = sparse_impl(tensor);
  impl->raw_resize_(sparse_impl(like)->sparse_dim(), sparse_impl(like)->dense_dim(), like.sizes());
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(sparse_impl(like)->coalesced());
}

void resize_storage(const c10::Storage& storage, std::size_t bytes, c10::DeviceIndex device) {
  c10::DataPtr data = allocate_on(device, bytes);
  const std::size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) std::memcpy(data.get(), storage.data(), kept);
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

}  // namespace

at::Tensor Aliases::of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_privateuseone()) return tensor;
  for (const auto& [original, alias] : pairs_) {
    if (original.is_same(tensor)) return alias;
  }
  TORCH_CHECK(tensor.layout() == at::kStrided || tensor.layout() == at::kSparse,
              "the simulated accelerator has no tensors of layout ", tensor.layout());
  at::Tensor alias = tensor.is_sparse() ? of_sparse(tensor) : of_dense(tensor);
  pairs_.emplace_back(tensor, alias);
  return alias;
}

at::Tensor Aliases::of_dense(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  auto found = of_storages_.find(storage.unsafeGetStorageImpl());
  if (found == of_storages_.end()) {
    const c10::Storage alias = cpu_storage_over(storage);
    found = of_storages_.emplace(storage.unsafeGetStorageImpl(), alias).first;
    storages_.emplace(alias.unsafeGetStorageImpl(), storage);
  }
  return like_on(tensor, found->second, c10::DispatchKeySet(c10::DispatchKey::CPU));
}

at::Tensor Aliases::of_sparse(const at::Tensor& tensor) {
  const at::SparseTensorImpl* const impl = sparse_impl(tensor);
  at::Tensor alias = at::detail::make_tensor<at::SparseTensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::SparseCPU), tensor.dtype());
  set_sparse_parts(alias, of(impl->indices_), of(impl->values_), tensor);
  return alias;
}

void Aliases::write_back() {
  // By their places: a sparse tensor's new parts become pairs of their own.
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const auto [tensor, alias] = pairs_[i];
    write_back(tensor, alias);
  }
}

void Aliases::write_back(const at::Tensor& tensor, const at::Tensor& alias) {
  if (tensor.is_sparse()) {
    bool is_new = false;
    const at::Tensor indices = on_device(sparse_impl(alias)->indices_, tensor.get_device(), is_new);
    const at::Tensor values = on_device(sparse_impl(alias)->values_, tensor.get_device(), is_new);
    const at::SparseTensorImpl* const impl = sparse_impl(tensor);
    if (!indices.is_same(impl->indices_) || !values.is_same(impl->values_) ||
        tensor.sizes() != alias.sizes() || impl->coalesced() != sparse_impl(alias)->coalesced())
      set_sparse_parts(tensor, indices, values, alias);
    return;
  }
  const c10::Storage& on_cpu = alias.storage();
  const c10::Storage& storage = tensor.storage();
  if (on_cpu.data_ptr().get() != storage.data_ptr().get()) {
    resize_storage(storage, on_cpu.nbytes(), tensor.get_device());
    if (on_cpu.nbytes() > 0) std::memcpy(storage.mutable_data(), on_cpu.data(), on_cpu.nbytes());
  }
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (tensor.sizes() != alias.sizes() || tensor.strides() != alias.strides() ||
      tensor.storage_offset() != alias.storage_offset()) {
    impl->set_storage_offset(alias.storage_offset());
    impl->set_sizes_and_strides(alias.sizes(), alias.strides());
  }
}

at::Tensor Aliases::on_device(const at::Tensor& result, c10::DeviceIndex index, bool& is_new) {
  if (!result.defined() || !result.device().is_cpu()) return result;
  for (const auto& [original, alias] : pairs_) {
    if (alias.is_same(result)) return original;
  }
  return result.is_sparse() ? sparse_on_device(result, index, is_new)
                            : dense_on_device(result, index, is_new);
}

at::Tensor Aliases::dense_on_device(const at::Tensor& result, c10::DeviceIndex index,
                                    bool& is_new) {
  const auto found = storages_.find(result.storage().unsafeGetStorageImpl());
  if (found != storages_.end()) return view_on_device(result, found->second);
  is_new = true;
  const std::size_t bytes = result.storage().nbytes();
  c10::DataPtr data = allocate_on(index, bytes);
  if (bytes > 0) std::memcpy(data.get(), result.storage().data(), bytes);
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(data),
                             device_memory(), /*resizable=*/true);
  return like_on(result, storage, kDenseOnDevice);
}

// In inference mode too, a view of a tensor that was made outside of it is as that tensor.
at::Tensor Aliases::view_on_device(const at::Tensor& result, const c10::Storage& storage) const {
  at::Tensor view = like_on(result, storage, kDenseOnDevice);
  for (const auto& [original, alias] : pairs_) {
    if (original.is_sparse() || !original.device().is_privateuseone() ||
        original.storage().unsafeGetStorageImpl() != storage.unsafeGetStorageImpl())
      continue;
    const auto keys = (original.key_set() - kLazyBits) | (result.key_set() & kLazyBits);
    at::Tensor out = at::detail::make_tensor<at::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(storage), keys, result.dtype());
    out.unsafeGetTensorImpl()->set_storage_offset(view.storage_offset());
    out.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes(), view.strides());
    return out;
  }
  return view;
}

at::Tensor Aliases::sparse_on_device(const at::Tensor& result, c10::DeviceIndex index,
                                     bool& is_new) {
  const at::SparseTensorImpl* const impl = sparse_impl(result);
  const c10::DeviceGuard guard({c10::DeviceType::PrivateUse1, index});
  at::Tensor out = at::detail::make_tensor<at::SparseTensorImpl>(kSparseOnDevice, result.dtype());
  set_sparse_parts(out, on_device(impl->indices_, index, is_new),
                   on_device(impl->values_, index, is_new), result);
  return out;
}

at::Tensor alias_on_cpu(const at::Tensor& tensor) {
  return like_on(tensor, cpu_storage_over(tensor.storage()),
                 c10::DispatchKeySet(c10::DispatchKey::CPU));
}

void add_access(std::vector<Access>& accesses, const at::Tensor& tensor, bool writes) {
  if (!tensor.defined() || !tensor.device().is_privateuseone()) return;
  if (tensor.is_sparse()) {
    add_access(accesses, sparse_impl(tensor)->indices_, writes);
    add_access(accesses, sparse_impl(tensor)->values_, writes);
    return;
  }
  if (tensor.numel() == 0) return;
  std::int64_t span = 1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) span += (tensor.size(i) - 1) * tensor.stride(i);
  const std::size_t size = tensor.itemsize();
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.storage().data()) +
                     static_cast<std::uintptr_t>(tensor.storage_offset()) * size;
  accesses.push_back(
      {.begin = begin, .end = begin + static_cast<std::uintptr_t>(span) * size, .writes = writes});
}

}  // namespace lockstep::accelerator
