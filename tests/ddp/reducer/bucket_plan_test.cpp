#include "ddp/bucket_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace lockstep {
namespace {

using Lists = std::vector<std::vector<std::size_t>>;

constexpr int kFloat = 6;
constexpr int kDouble = 7;

GradientSize floats(std::int64_t count) {
  return {count, 4, kFloat};
}
GradientSize doubles(std::int64_t count) {
  return {count, 8, kDouble};
}

Lists lists(const BucketPlan& plan) {
  Lists result;
  for (const PlannedBucket& bucket : plan) result.push_back(bucket.gradients);
  return result;
}

// PyTorch's own published values: test_c10d_common.py, ComputeBucketAssignmentTest.
TEST(BucketPlan, ClosesABucketWhenItReachesItsCap) {
  EXPECT_EQ(lists(assign_buckets({floats(100), floats(200), floats(100), floats(50)}, {400})),
            (Lists{{0}, {1}, {2}, {3}}));
}

TEST(BucketPlan, ReadsCapsAsPyTorchDoes) {
  using Caps = std::vector<std::int64_t>;
  EXPECT_EQ(bucket_bytes_caps(std::nullopt), (Caps{1 << 20, 25 << 20}));
  EXPECT_EQ(bucket_bytes_caps(25.0), (Caps{25 << 20}));
  EXPECT_EQ(bucket_bytes_caps(0.001), (Caps{1048}));
  EXPECT_EQ(bucket_bytes_caps(0.0), (Caps{0}));
  EXPECT_THROW(bucket_bytes_caps(-1.0), std::invalid_argument);
  EXPECT_THROW(bucket_bytes_caps(std::nan("")), std::invalid_argument);
}

TEST(BucketPlan, HasCapsInTheFirstPassWhereItMust) {
  EXPECT_EQ(lists(first_plan({floats(10), floats(10), floats(10), floats(10)}, {40, 80})),
            (Lists{{3}, {1, 2}, {0}}));
}

TEST(BucketPlan, CountsBeyondTwoToThe31) {
  const std::int64_t huge = (std::int64_t{1} << 31) + 5;
  const BucketPlan plan =
      assign_buckets({floats(huge), floats(huge), doubles(huge)}, {std::int64_t{1} << 35});
  ASSERT_EQ(lists(plan), (Lists{{0, 1}, {2}}));
  EXPECT_EQ(plan[0].bytes, 8 * huge);
  EXPECT_EQ(plan[1].bytes, 8 * huge);
}

TEST(BucketPlan, RefusesNonsense) {
  EXPECT_THROW(assign_buckets({floats(1)}, {}), std::invalid_argument);
  EXPECT_THROW(assign_buckets({floats(1)}, {-1}), std::invalid_argument);
  EXPECT_THROW(assign_buckets({floats(-1)}, {1}), std::invalid_argument);
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0}, {0, 0}, {0, 2}, {0, 1, 1}}) {
    EXPECT_THROW(assign_buckets_in_order({floats(1), floats(1)}, {1}, order),
                 std::invalid_argument);
  }
}

// Checks what holds for every plan without following the algorithm: each gradient once, kinds
// apart, and a bucket is below its cap before its last gradient and not after it, the last of a
// kind apart.
void expect_sound(const std::vector<GradientSize>& gradients, std::int64_t cap,
                  const std::vector<std::size_t>& order) {
  const BucketPlan plan = assign_buckets_in_order(gradients, {cap}, order);
  std::vector<std::size_t> seen;
  for (const PlannedBucket& bucket : plan) {
    ASSERT_FALSE(bucket.gradients.empty());
    std::int64_t bytes = 0;
    for (const std::size_t index : bucket.gradients) {
      EXPECT_EQ(gradients[index].kind, gradients[bucket.gradients.front()].kind);
      bytes += gradients[index].bytes();
      seen.push_back(index);
    }
    EXPECT_EQ(bucket.bytes, bytes);
    if (bucket.gradients.size() > 1) {
      EXPECT_LT(bytes - gradients[bucket.gradients.back()].bytes(), cap);
    }
  }
  for (const int kind : {kFloat, kDouble}) {
    std::vector<std::size_t> in_order;
    for (const std::size_t index : order) {
      if (gradients[index].kind == kind) in_order.push_back(index);
    }
    std::vector<std::size_t> in_plan;
    std::size_t open_count = 0;
    for (const PlannedBucket& bucket : plan) {
      if (gradients[bucket.gradients.front()].kind != kind) continue;
      in_plan.insert(in_plan.end(), bucket.gradients.begin(), bucket.gradients.end());
      if (bucket.bytes < cap) ++open_count;
    }
    EXPECT_EQ(in_plan, in_order);
    EXPECT_LE(open_count, 1U);
  }
  std::sort(seen.begin(), seen.end());
  std::vector<std::size_t> all(gradients.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(seen, all);
}

TEST(BucketPlan, IsSoundForAllSmallListsCapsAndOrders) {
  const std::vector<GradientSize> choices = {floats(0), floats(1), floats(3), doubles(1)};
  for (std::size_t count = 0; count <= 4; ++count) {
    const auto list_count = static_cast<std::size_t>(std::pow(choices.size(), count));
    for (std::size_t code = 0; code < list_count; ++code) {
      std::vector<GradientSize> gradients;
      for (std::size_t i = 0, rest = code; i < count; ++i, rest /= choices.size()) {
        gradients.push_back(choices[rest % choices.size()]);
      }
      std::vector<std::size_t> order(count);
      std::iota(order.begin(), order.end(), std::size_t{0});
      do {
        for (const std::int64_t cap : {0, 1, 4, 8, 12, 100}) expect_sound(gradients, cap, order);
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
}

TEST(BucketPlan, HasNoBucketsWithoutGradients) {
  EXPECT_TRUE(first_plan({}).empty());
  EXPECT_TRUE(assign_buckets({}, {1}).empty());
}

}  // namespace
}  // namespace lockstep
