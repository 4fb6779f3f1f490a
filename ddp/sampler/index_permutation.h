#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

// A permutation of 0, 1, ..., size - 1 that is computed for one index at a time and takes no
// memory: docs/semantics.md 4. `size` is at least 1. Local; does not block.
class IndexPermutation {
 public:
  IndexPermutation(std::uint64_t size, std::uint64_t seed);

  // `index` is below size, and so is the result.
  std::uint64_t operator()(std::uint64_t index) const;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t size_;
  int bits_ = 0;  // of a half of an index
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace lockstep
