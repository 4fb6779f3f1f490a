// Divides the state of parameters over the ranks.
#include "train/zero_redundancy/partition.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Bytes = std::vector<std::size_t>;
using Owners = std::vector<int>;

TEST(Partition, GivesTheLargestFirstToTheRankWithTheLeast) {
  Bytes given(2);
  EXPECT_EQ(give_out({3, 8, 5, 4}, given), (Owners{0, 0, 1, 1}));
  EXPECT_EQ(given, (Bytes{11, 9}));
}

TEST(Partition, GivesEqualOnesInTheirOrderToTheLowestRank) {
  Bytes given(3);
  EXPECT_EQ(give_out({2, 2, 2, 2}, given), (Owners{0, 1, 2, 0}));
}

TEST(Partition, ContinuesWithWhatRanksHaveAlready) {
  Bytes given{10, 0};
  EXPECT_EQ(give_out({4, 4, 4}, given), (Owners{1, 1, 1}));
  EXPECT_EQ(give_out({1}, given), (Owners{0}));
}

TEST(Partition, LeavesRanksWithoutParametersWhereThereAreFew) {
  Bytes given(3);
  EXPECT_EQ(give_out({7}, given), (Owners{0}));
  EXPECT_EQ(give_out({}, given), Owners());
  EXPECT_EQ(given, (Bytes{7, 0, 0}));
}

}  // namespace
}  // namespace lockstep
