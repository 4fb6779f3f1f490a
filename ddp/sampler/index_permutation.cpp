#include "ddp/sampler/index_permutation.h"

#include <bit>
#include <utility>

namespace lockstep {

namespace {

// SplitMix64's: each bit of the result depends on all bits of `word`.
std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31U);
}

}  // namespace

IndexPermutation::IndexPermutation(std::uint64_t size, std::uint64_t seed)
    : size_(size), bits_((static_cast<int>(std::bit_width(size - 1)) + 1) / 2) {
  for (auto& key : keys_) key = mixed(seed += 0x9e3779b97f4a7c15U);
}

std::uint64_t IndexPermutation::operator()(std::uint64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << bits_) - 1;
  do {
    std::uint64_t left = index >> bits_, right = index & mask;
    for (const auto key : keys_) left = std::exchange(right, left ^ (mixed(right + key) & mask));
    index = (left << bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace lockstep
