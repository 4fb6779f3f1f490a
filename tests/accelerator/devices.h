#pragma once

#include "harness/accelerator/accelerator.h"

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace lockstep::testing {

inline const std::vector<std::string> kNoHazards;

// True if a tensor, of any device, has the bits of one of the CPU, NaN for NaN.
inline bool same_bits(const at::Tensor& given, const at::Tensor& expected) {
  if (given.scalar_type() != expected.scalar_type() || given.sizes() != expected.sizes()) {
    return false;
  }
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().view({-1}).view(
        at::kByte);
  };
  return bytes(given).equal(bytes(expected));
}

}  // namespace lockstep::testing
