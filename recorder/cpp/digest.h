// Tensors as 16 bytes each: docs/protocol.md, section 5.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

struct TensorDigest {
  uint64_t bits = 0;
  double norm = -1;  // of no tensor
};

// The digest of a tensor; an undefined one has the digest of no tensor. Tensors of a device are
// copied to the host.
TensorDigest digested(const at::Tensor& tensor);

}  // namespace lockstep
