#pragma once

#include "harness/accelerator/stream_order.h"

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::accelerator {

// Tensors of a device as tensors of the CPU, for the time of one operation: the same memory, sizes,
// strides and bits for conjugate and negative. Two views of one storage stay two views of one
// storage. Sparse tensors keep their device's indices and values, as aliases.
class Aliases {
 public:
  // The alias of a tensor of a device; any other tensor is returned as it is.
  at::Tensor of(const at::Tensor& tensor);

  // What the operation did to the aliases' shape, their size in memory, and which indices and
  // values a sparse one has, is done to the tensors of the device. Afterwards, once.
  void write_back();

  // A result as a tensor of device `index`: the very tensor whose alias it is, a view of the
  // storage of one, or else (`is_new`) a tensor of the device with its own copy.
  at::Tensor on_device(const at::Tensor& result, c10::DeviceIndex index, bool& is_new);

 private:
  at::Tensor of_dense(const at::Tensor& tensor);
  at::Tensor of_sparse(const at::Tensor& tensor);
  at::Tensor dense_on_device(const at::Tensor& result, c10::DeviceIndex index, bool& is_new);
  at::Tensor sparse_on_device(const at::Tensor& result, c10::DeviceIndex index, bool& is_new);
  void write_back(const at::Tensor& tensor, const at::Tensor& alias);

  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;  // tensor of a device, alias
  std::unordered_map<const c10::StorageImpl*, c10::Storage> of_storages_;
  // The other way; what stands behind an alias's storage.
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages_;
};

// A dense tensor of the device on the CPU, in the same memory, for as long as it lives.
at::Tensor alias_on_cpu(const at::Tensor& tensor);

// The bytes from the first element of a tensor to its last; those of a sparse tensor's indices and
// values. Adds nothing for a tensor of the CPU.
void add_access(std::vector<Access>& accesses, const at::Tensor& tensor, bool writes);

}  // namespace lockstep::accelerator
