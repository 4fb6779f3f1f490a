#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// Splits the indices of a dataset of `size` samples into disjoint parts in random order, such as
// training and validation: the bits of torch.utils.data.random_split with
// torch.Generator().manual_seed(seed), so that every rank computes the same parts, and a Python
// program too. A seed is required: without one each rank would train on what another validates.
//
// `lengths` are samples, whose sum is `size`, or fractions, whose sum is 1: each part then has the
// rounded-down product, and the remaining samples go to the first parts, one each. 10 samples,
// {0.7, 0.3} and seed 42: 2 6 1 8 4 5 0 | 9 3 7.
//
// Local; does not block; the global random generator is not touched. Throws UsageError where the
// sums differ, or a length is negative or no whole number.
// Source: torch/utils/data/dataset.py, random_split.
std::vector<std::vector<std::size_t>> random_split(std::size_t size,
                                                   const std::vector<double>& lengths,
                                                   std::uint64_t seed);

template <std::integral Integer>
std::vector<std::vector<std::size_t>> random_split(std::size_t size,
                                                   const std::vector<Integer>& lengths,
                                                   std::uint64_t seed) {
  return random_split(size, std::vector<double>(lengths.begin(), lengths.end()), seed);
}

}  // namespace lockstep
