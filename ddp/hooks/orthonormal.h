#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

// The columns of `columns`, [rows, columns] of float32 or float64, each less its part along those
// before it, and of length 1. A column of which only rounding is left becomes zero: normalised, the
// rounding would count as a direction of its own. NaN stays NaN. Local.
at::Tensor orthonormal(const at::Tensor& columns);

}  // namespace lockstep
