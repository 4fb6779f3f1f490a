#include "reference/averaging.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::reference {
namespace {

std::vector<int> sizes(const AveragingRule& rule, int steps) {
  std::vector<int> out;
  for (int step = 0; step < steps; ++step) out.push_back(averaging_group_size(rule, step));
  return out;
}

// The steps that docs/semantics.md 6.1 takes from PyTorch's averagers.
TEST(Averaging, TheWarmUpIsSubtractedOrIsNot) {
  const AveragingRule periodic{.levels = {{3, 2}}, .warmup_steps = 1, .warmup_is_subtracted = true};
  EXPECT_EQ(sizes(periodic, 8), (std::vector<int>{1, 2, 1, 1, 2, 1, 1, 2}));
  const AveragingRule hierarchical{.levels = {{3, 2}}, .warmup_steps = 1};
  EXPECT_EQ(sizes(hierarchical, 8), (std::vector<int>{1, 1, 1, 2, 1, 1, 2, 1}));
}

TEST(Averaging, TheLongestPeriodThatDividesTheStepDecides) {
  EXPECT_EQ(sizes({.levels = {{2, 2}, {4, 8}}}, 7), (std::vector<int>{8, 1, 2, 1, 8, 1, 2}));
}

TEST(Averaging, IsWithinGroupsOfConsecutiveRanks) {
  std::vector<at::Tensor> by_rank;
  for (const double value : {0.0, 12.0, 24.0, 36.0})
    by_rank.push_back(torch::full({2}, value, at::kDouble));
  const auto pairs = averaged_in_groups(by_rank, 2);
  std::vector<double> seen;
  for (const auto& each : pairs) seen.push_back(each[1].item<double>());
  EXPECT_EQ(seen, (std::vector<double>{6, 6, 30, 30}));
}

TEST(Averaging, IsCertifiedWhereQuotientsAreWholeAndFit) {
  const std::vector<at::Tensor> threes(3, torch::full({1}, 3.0, at::kDouble));
  EXPECT_TRUE(averages_without_rounding(threes, 3, 2));   // sums of at most 3
  EXPECT_FALSE(averages_without_rounding(threes, 3, 1));  // of more than one bit
  EXPECT_FALSE(averages_without_rounding(threes, 2, 53));
}

TEST(Averaging, OwnersAreThoseOfTheLargestFirst) {
  EXPECT_EQ(owners({{3, 8, 5, 4}, {2, 2}}, 2),
            (std::vector<std::vector<int>>{{0, 0, 1, 1}, {1, 0}}));
}

}  // namespace
}  // namespace lockstep::reference
