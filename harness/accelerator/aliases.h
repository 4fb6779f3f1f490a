#pragma once

#include "harness/accelerator/stream_order.h"

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::accelerator {

// Device tensors as CPU tensors, for the duration of one operation: the same memory, sizes, strides
// and bits for conjugate and negative. Two views of one storage stay two views of one storage.
// Sparse tensors keep their device's indices and values, as aliases.
class Aliases {
 public:
  // The alias of a device tensor; any other tensor is returned unchanged.
  at::Tensor of(const at::Tensor& tensor);

  // Copies the operation's changes of the aliases to the device tensors: shape, size in memory, and
  // the indices and values of a sparse one. Call it once, after the operation.
  void write_back();

  // A result as a tensor of device `index`: the tensor whose alias it is, a view if it shares an
  // alias's storage, or else (`is_new`) a new device tensor with a copy.
  at::Tensor on_device(const at::Tensor& result, c10::DeviceIndex index, bool& is_new);

 private:
  at::Tensor of_dense(const at::Tensor& tensor);
  at::Tensor of_sparse(const at::Tensor& tensor);
  at::Tensor dense_on_device(const at::Tensor& result, c10::DeviceIndex index, bool& is_new);
  at::Tensor view_on_device(const at::Tensor& result, const c10::Storage& storage) const;
  at::Tensor sparse_on_device(const at::Tensor& result, c10::DeviceIndex index, bool& is_new);
  void write_back(const at::Tensor& tensor, const at::Tensor& alias);

  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;  // device tensor, alias
  std::unordered_map<const c10::StorageImpl*, c10::Storage> of_storages_;
  // The reverse: an alias's storage to the device's.
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages_;
};

// A dense device tensor as a CPU tensor in the same memory, for as long as it lives.
at::Tensor alias_on_cpu(const at::Tensor& tensor);

// Adds the bytes from the first element of a tensor to its last, or those of a sparse tensor's
// indices and values. Adds nothing for a CPU tensor.
void add_access(std::vector<Access>& accesses, const at::Tensor& tensor, bool writes);

}  // namespace lockstep::accelerator
