#include "ddp/sync_batch_norm/statistics.h"

#include <cstddef>

namespace lockstep {

namespace {

// One channel over all ranks: the weighted average, and the sum of squared distances from it.
struct Channel {
  double average = 0;
  double squared_distances = 0;
};

Channel merged_channel(const std::vector<BatchStatistics>& by_rank, std::size_t channel,
                       double count) {
  Channel whole;
  for (const BatchStatistics& rank : by_rank) {
    if (rank.count == 0) continue;
    whole.average += static_cast<double>(rank.count) * rank.averages[channel];
  }
  whole.average /= count;
  for (const BatchStatistics& rank : by_rank) {
    if (rank.count == 0) continue;
    const double distance = rank.averages[channel] - whole.average;
    whole.squared_distances +=
        rank.squared_distances[channel] + static_cast<double>(rank.count) * distance * distance;
  }
  return whole;
}

}  // namespace

BatchStatistics merged(const std::vector<BatchStatistics>& by_rank) {
  BatchStatistics whole;
  for (const BatchStatistics& rank : by_rank) whole.count += rank.count;
  const std::size_t channels = by_rank.empty() ? 0 : by_rank.front().averages.size();
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const Channel one = whole.count == 0
                            ? Channel()
                            : merged_channel(by_rank, channel, static_cast<double>(whole.count));
    whole.averages.push_back(one.average);
    whole.squared_distances.push_back(one.squared_distances);
  }
  return whole;
}

std::vector<double> variances(const BatchStatistics& statistics, std::int64_t divisor) {
  std::vector<double> out;
  for (const double squared : statistics.squared_distances) {
    out.push_back(squared / static_cast<double>(divisor));
  }
  return out;
}

}  // namespace lockstep
