#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

// The statistics of one rank's batch or of all ranks' together. Pure arithmetic on plain numbers,
// without torch; everything is Local and does not block.
//
// Note [Averages and squared distances]
// Ranks exchange averages and squared distances from their own average, not sums of squares: where
// values are far from zero and close together, a difference of sums of squares has no correct digit
// left. Merging adds the distances between the ranks' averages (Chan, Golub and LeVeque 1979).
struct BatchStatistics {
  std::int64_t count = 0;                 // values per channel
  std::vector<double> averages;           // by channel; 0 where count is 0
  std::vector<double> squared_distances;  // by channel: the sum over its values

  bool operator==(const BatchStatistics&) const = default;
};

// The statistics of the concatenated batch. Every rank is weighted by its count, so an empty batch
// has no weight, whatever it holds; all have the same number of channels. The result depends on the
// arguments alone: ranks that merge the same list hold the same bits.
BatchStatistics merged(const std::vector<BatchStatistics>& by_rank);

// squared_distances / divisor: the biased variance for the count, the unbiased one for count - 1.
std::vector<double> variances(const BatchStatistics& statistics, std::int64_t divisor);

}  // namespace lockstep
