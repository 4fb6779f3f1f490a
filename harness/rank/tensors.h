// Tensors as plain words and numbers.
#pragma once

#include "harness/base/dtype.h"
#include "harness/history/history.h"

#include <torch/torch.h>

#include <string>
#include <vector>

namespace lockstep {

// torch's own word: "float32", "int64", "bool"; for types without plain elements, their name in
// C++.
std::string dtype_word(at::ScalarType type);
at::ScalarType scalar_type(Dtype dtype);

// `value` as it is now, copied; of any device and layout that can be made contiguous. Throws
// std::invalid_argument for an undefined tensor or a type without plain elements.
TensorValue value_of(const at::Tensor& value);

// Elements in all of them; undefined tensors hold none.
int64_t element_count(const std::vector<at::Tensor>& tensors);

// The word of the first defined tensor; empty if there is none, "mixed" if they differ.
std::string dtype_word(const std::vector<at::Tensor>& tensors);

}  // namespace lockstep
