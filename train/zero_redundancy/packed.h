#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

// Tensors of any dtypes and strides, on one device, in one row of bytes. Local.
class Packed {
 public:
  explicit Packed(std::vector<at::Tensor> tensors);

  // 1-D, on the tensors' device; empty where they have no elements. Its values are undefined until
  // it is written.
  const at::Tensor& bytes() const { return bytes_; }

  void write_tensors_into_bytes() const;
  void write_bytes_into_tensors() const;

 private:
  std::vector<at::Tensor> tensors_, places_;  // each tensor, and its view of the bytes
  at::Tensor bytes_;
};

}  // namespace lockstep
