// The parameters of a case that lists their `sizes`, in elements, and their `dtypes`.
#pragma once

#include "scenarios/cases/tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lockstep::scenarios {

// No sizes: one parameter of one element.
template <class Case>
size_t parameter_count(const Case& c) {
  return std::max<size_t>(c.sizes.size(), 1);
}

template <class Case>
int64_t size_of(const Case& c, size_t parameter) {
  return c.sizes.empty() ? 1 : c.sizes[parameter];
}

// Read cyclically. No dtypes: `otherwise`.
template <class Case>
at::ScalarType dtype_of(const Case& c, size_t parameter, at::ScalarType otherwise = at::kFloat) {
  return c.dtypes.empty() ? otherwise : scalar_type(c.dtypes[parameter % c.dtypes.size()]);
}

template <class Case>
bool has_two_dtypes(const Case& c) {
  return parameter_count(c) > 1 && c.dtypes.size() > 1 && c.dtypes[0] != c.dtypes[1];
}

}  // namespace lockstep::scenarios
