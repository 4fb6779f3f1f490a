// Rows of float32 values by rank, and what they show.
#pragma once

#include "harness/verdict/compare.h"

#include <cstring>

namespace lockstep {

inline TensorValue floats_of(const std::vector<float>& values) {
  TensorValue out{"float32", {static_cast<int64_t>(values.size())}, {}};
  out.bytes.resize(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

inline Row row(const std::vector<std::vector<float>>& by_rank) {
  Row out{{2, "after"}, "w", {}};
  for (const auto& values : by_rank) out.by_rank.push_back(floats_of(values));
  return out;
}

// The pattern that these values show, of each rank, beside the expected ones.
inline std::string pattern(const std::vector<std::vector<float>>& seen,
                           const std::vector<std::vector<float>>& expected,
                           const Explanations& explanations = {}) {
  return diagnose({row(seen), row(expected).by_rank, {}}, explanations).pattern;
}

}  // namespace lockstep
