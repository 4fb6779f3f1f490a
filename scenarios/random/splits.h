// Splits of a dataset by shares.
#pragma once

#include "harness/history/history.h"
#include "harness/verdict/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace lockstep::scenarios::random {

// The sizes of the parts of a split that was refused.
inline const std::vector<int64_t> kRefused{-1};

// Shares of the parts of a dataset, none below 0 and of sum 1 or so little less that it rounds, or
// whole lengths, whose sum is the dataset's; others are refused.
inline const std::array<std::vector<double>, 11> kSplits{{{0.5, 0.5},
                                                          {0.25, 0.25, 0.25, 0.25},
                                                          {0.125, 0.625, 0.25},
                                                          {0.5, 0.4375},
                                                          {0.5, 0.515625},
                                                          {0.0, 1.0},
                                                          {2.0, 1.0},
                                                          {1.5, -0.5},
                                                          {0.7, 0.29, 0.01},
                                                          {0.5, 0.5000000000000002},
                                                          {0.5, 0.4999999999999999}}};

// Its second part of 100 samples is 28, and 29 where the product is rounded to a float.
inline constexpr int kSplitThatRounds = 8;

// Each part has its share, rounded down; what is left is given out one by one, from the first part
// on.
inline std::vector<int64_t> sizes_of_parts(int split, int64_t length) {
  const auto& shares = kSplits.at(static_cast<size_t>(split));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto is_whole = [](double share) { return share == std::floor(share); };
  if (std::ranges::all_of(shares, is_whole) && sum == static_cast<double>(length))
    return {shares.begin(), shares.end()};
  constexpr double kMissingMost = 1e-9;
  if (sum > 1 || 1 - sum > kMissingMost || std::ranges::min(shares) < 0) return kRefused;
  std::vector<int64_t> sizes;
  int64_t left = length;
  for (const double share : shares) {
    sizes.push_back(static_cast<int64_t>(std::floor(share * static_cast<double>(length))));
    left -= sizes.back();
  }
  for (size_t part = 0; left > 0; --left, ++part) ++sizes[part];
  return sizes;
}

// A finding if a rank got parts of shares that it had to refuse.
inline Findings wrong_shares_taken(int split, int64_t length, const Row& sizes) {
  if (sizes_of_parts(split, length) != kRefused) return {};
  for (size_t rank = 0; rank < sizes.by_rank.size(); ++rank) {
    const auto parts = as_integers(sizes.by_rank[rank]);
    if (parts == kRefused) continue;
    const auto given = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    return {{"Every rank must refuse shares that are no whole", "wrong_shares_taken",
             "act " + std::to_string(sizes.at.step),
             "rank " + std::to_string(rank) + " split " + std::to_string(length) +
                 " samples by shares that are no whole, and its parts have " +
                 std::to_string(given)}};
  }
  return {};
}

}  // namespace lockstep::scenarios::random
