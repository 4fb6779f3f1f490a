#include "ddp/sync_batch_norm/statistics.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// The statistics of one channel, from its values.
BatchStatistics of(const std::vector<double>& values) {
  BatchStatistics out{static_cast<std::int64_t>(values.size()), {0}, {0}};
  for (const double value : values) out.averages[0] += value;
  if (!values.empty()) out.averages[0] /= static_cast<double>(values.size());
  for (const double value : values) {
    out.squared_distances[0] += (value - out.averages[0]) * (value - out.averages[0]);
  }
  return out;
}

TEST(BatchStatistics, OfRanksAreThoseOfTheConcatenatedBatch) {
  const std::vector<double> left{1, 3, 5, 7, 2, 6};
  const std::vector<double> right{-9, 11};
  std::vector<double> all = left;
  all.insert(all.end(), right.begin(), right.end());
  const BatchStatistics whole = merged({of(left), of(right)});
  EXPECT_EQ(whole.count, 8);
  EXPECT_DOUBLE_EQ(whole.averages[0], of(all).averages[0]);
  EXPECT_DOUBLE_EQ(whole.squared_distances[0], of(all).squared_distances[0]);
}

TEST(BatchStatistics, OfAnEmptyRankWeighNothingWhateverItHolds) {
  const BatchStatistics garbage{0, {1e300}, {-7}};
  EXPECT_EQ(merged({garbage, of({4, 8})}), of({4, 8}));
}

TEST(BatchStatistics, OfEmptyRanksAloneAreZeros) {
  EXPECT_EQ(merged({of({}), of({})}), of({}));
}

// A sum of squares would need 108 bits here.
TEST(BatchStatistics, KeepAVarianceFarFromZero) {
  const double far = 0x1p52;
  const BatchStatistics whole = merged({of({far, far + 2}), of({far + 4, far + 6})});
  EXPECT_EQ(whole.averages[0], far + 3);
  EXPECT_EQ(whole.squared_distances[0], 20);
}

TEST(BatchStatistics, AreOfEachChannelAlone) {
  const BatchStatistics whole = merged({{1, {2, 20}, {0, 0}}, {3, {6, 20}, {8, 6}}});
  EXPECT_EQ(whole, (BatchStatistics{4, {5, 20}, {20, 6}}));
  EXPECT_EQ(variances(whole, 4), (std::vector<double>{5, 1.5}));
  EXPECT_EQ(variances(whole, 2), (std::vector<double>{10, 3}));
}

}  // namespace
}  // namespace lockstep
