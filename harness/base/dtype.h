// The dtypes of tensors, by PyTorch's names, and what is known of each. No torch.
#pragma once

#include "harness/base/words.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

enum class Dtype {
  float32,
  float64,
  float16,
  bfloat16,
  complex64,
  complex128,
  int64,
  int32,
  int16,
  int8,
  uint8,
  uint16,
  uint32,
  uint64,
  bool_,
  float8_e5m2,
  float8_e4m3fn,
};

enum class NumberKind { none, whole, floating, complex };

struct DtypeTraits {
  Dtype dtype;
  int64_t bytes;  // of an element
  NumberKind kind = NumberKind::none;
  // The bits of the significand, and the exponent of the smallest normal number, which is
  // 2^(exponent_min - 1), of the real floating dtypes that are read as numbers; 0 for others.
  int precision_bits = 0;
  int exponent_min = 0;
};

inline constexpr std::array kDtypes{
    DtypeTraits{Dtype::float32, 4, NumberKind::floating, 24, -125},
    DtypeTraits{Dtype::float64, 8, NumberKind::floating, 53, -1021},
    DtypeTraits{Dtype::float16, 2, NumberKind::floating, 11, -13},
    DtypeTraits{Dtype::bfloat16, 2, NumberKind::floating, 8, -125},
    DtypeTraits{Dtype::complex64, 8, NumberKind::complex},
    DtypeTraits{Dtype::complex128, 16, NumberKind::complex},
    DtypeTraits{Dtype::int64, 8, NumberKind::whole},
    DtypeTraits{Dtype::int32, 4, NumberKind::whole},
    DtypeTraits{Dtype::int16, 2, NumberKind::whole},
    DtypeTraits{Dtype::int8, 1, NumberKind::whole},
    DtypeTraits{Dtype::uint8, 1, NumberKind::whole},
    DtypeTraits{Dtype::uint16, 2, NumberKind::whole},
    DtypeTraits{Dtype::uint32, 4, NumberKind::whole},
    DtypeTraits{Dtype::uint64, 8, NumberKind::whole},
    DtypeTraits{Dtype::bool_, 1, NumberKind::whole},
    DtypeTraits{Dtype::float8_e5m2, 1, NumberKind::floating},
    DtypeTraits{Dtype::float8_e4m3fn, 1, NumberKind::floating},
};
static_assert([] {
  for (size_t i = 0; i < kDtypes.size(); ++i)
    if (static_cast<size_t>(kDtypes[i].dtype) != i) return false;
  return kDtypes.size() == words::kAll<Dtype>.size();
}());

constexpr const DtypeTraits& traits_of(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)];
}

// A word of a record may be another library's dtype or "mixed"; then all numbers are 0, of no kind.
inline DtypeTraits traits_of(std::string_view word) {
  const auto dtype = value_of_word<Dtype>(word);
  return dtype ? traits_of(*dtype) : DtypeTraits{};
}

// True if Gloo has this collective for tensors of the dtype that are not sparse. Measured with
// LibTorch 2.11.
inline bool gloo_carries(Dtype dtype, std::string_view op) {
  switch (dtype) {
    case Dtype::complex64:
    case Dtype::complex128:
      return op == "broadcast" || op == "allreduce" || op == "reduce" ||
             op == "allreduce_coalesced";
    case Dtype::int16:
    case Dtype::uint16:
    case Dtype::uint32:
    case Dtype::uint64:
    case Dtype::float8_e5m2:
    case Dtype::float8_e4m3fn:
      return false;
    default:
      return true;
  }
}

constexpr bool is_half(Dtype dtype) {
  return traits_of(dtype).bytes == 2 && traits_of(dtype).precision_bits > 0;
}

}  // namespace lockstep
