#include "reference/buckets.h"

#include <gtest/gtest.h>

namespace lockstep::reference {
namespace {

constexpr int kFloats = 6, kDoubles = 7;

TravellingGradient of_bytes(int64_t bytes, int kind = kFloats) {
  return {.bytes = bytes, .kind = kind};
}

TEST(Buckets, TheFirstPassHasOneOfEachKindAndLaunchesTheLastKindFirst) {
  EXPECT_EQ(first_buckets({of_bytes(4), of_bytes(8, kDoubles), of_bytes(4)}, {}),
            (Buckets{{1}, {0, 2}}));
}

TEST(Buckets, AGradientThatBringsOneToItsCapClosesIt) {
  const std::vector<TravellingGradient> gradients(4, of_bytes(4));
  EXPECT_EQ(first_buckets(gradients, {8}), (Buckets{{2, 3}, {0, 1}}));
  EXPECT_EQ(first_buckets(gradients, {9}), (Buckets{{3}, {0, 1, 2}}));
  EXPECT_EQ(first_buckets(gradients, {0}), (Buckets{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(first_buckets(gradients, {4, 8}), (Buckets{{3}, {1, 2}, {0}}));
}

TEST(Buckets, RebuiltOnesFollowTheLastArrivalOfEachGradient) {
  const std::vector<TravellingGradient> gradients(4, of_bytes(4));
  EXPECT_EQ(rebuilt_buckets(gradients, {0}, {2, 0, 2, 1}), (Buckets{{0}, {2}, {1}, {3}}));
}

TEST(Buckets, RebuiltOnesThatAreNotFullComeLastByTheirFirstGradient) {
  const std::vector<TravellingGradient> gradients{of_bytes(8, kDoubles), of_bytes(4), of_bytes(8)};
  EXPECT_EQ(rebuilt_buckets(gradients, {100}, {1, 2, 0}), (Buckets{{1, 2}, {0}}));
  EXPECT_EQ(rebuilt_buckets(gradients, {8}, {1, 0, 2}), (Buckets{{0}, {1, 2}}));
}

TEST(Buckets, SparseGradientsAreAloneAndDelayedOnesLast) {
  auto gradients = std::vector<TravellingGradient>(5, of_bytes(4));
  gradients[1].is_sparse = true;
  gradients[2].is_delayed = true;
  gradients[4].is_delayed = true;
  EXPECT_EQ(first_buckets(gradients, {}), (Buckets{{1}, {0, 3}, {2, 4}}));
  EXPECT_EQ(rebuilt_buckets(gradients, {1}, {2, 3, 1, 4, 0}), (Buckets{{3}, {1}, {0}, {2, 4}}));
}

}  // namespace
}  // namespace lockstep::reference
