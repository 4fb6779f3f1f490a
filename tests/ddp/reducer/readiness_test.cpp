#include "ddp/bucket_plan/readiness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace lockstep {
namespace {

using Indices = std::vector<std::size_t>;

BucketPlan plan_of(const std::vector<Indices>& buckets) {
  BucketPlan plan;
  for (const Indices& bucket : buckets) plan.push_back({bucket, 0});
  return plan;
}

TEST(Readiness, ABucketIsCompleteWithItsLastGradientInWhateverOrder) {
  const std::vector<Indices> buckets = {{3, 1}, {0, 4}, {2}};
  Indices order = {0, 1, 2, 3, 4};
  do {
    Readiness readiness(plan_of(buckets));
    std::vector<bool> there(order.size(), false);
    for (const std::size_t gradient : order) {
      there[gradient] = true;
      const auto complete = readiness.mark_ready(gradient);
      for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
        const Indices& members = buckets[bucket];
        const bool mine = std::count(members.begin(), members.end(), gradient) > 0;
        const bool all = std::all_of(members.begin(), members.end(),
                                     [&](std::size_t member) { return there[member]; });
        EXPECT_EQ(complete == bucket, mine && all);
      }
    }
    EXPECT_TRUE(readiness.all_ready());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Readiness, NamesWhatIsMissing) {
  Readiness readiness(plan_of({{2, 0}, {1}}));
  EXPECT_EQ(readiness.missing(), (Indices{0, 1, 2}));
  readiness.mark_ready(1);
  EXPECT_EQ(readiness.missing(), (Indices{0, 2}));
  EXPECT_TRUE(readiness.is_ready(1));
  EXPECT_FALSE(readiness.is_ready(0));
}

TEST(Readiness, RefusesAGradientThatComesTwice) {
  Readiness readiness(plan_of({{0}, {1}}));
  readiness.mark_ready(0);
  EXPECT_THROW(readiness.mark_ready(0), std::logic_error);
  EXPECT_THROW(readiness.mark_ready(2), std::out_of_range);
}

}  // namespace
}  // namespace lockstep
