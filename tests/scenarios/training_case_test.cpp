#include "harness/cases/scenario.h"
#include "scenarios/cases/expect.h"
#include "scenarios/catalogue.h"

#include <gtest/gtest.h>

namespace lockstep::scenarios {
namespace {

TEST(TrainingCase, PartsLieInRankOrderAndCoverTheBatch) {
  for (int world = 1; world <= 9; ++world)
    for (const auto& shares : std::vector<std::vector<int>>{{}, {0}, {1, 3}, {0, 5, 1}, {7, 0}})
      for (int log2 = 0; log2 <= 6; ++log2) {
        const Training c{.world = {.size = world}, .batch_log2 = log2, .shares = shares};
        int64_t next = 0;
        for (int rank = 0; rank < world; ++rank) {
          const auto part = part_of_batch(c, rank);
          EXPECT_EQ(part.begin, next);
          EXPECT_GE(part.end, part.begin);
          next = part.end;
        }
        EXPECT_EQ(next, batch_size(c));
      }
}

TEST(TrainingCase, ANetworkHasTheParametersTheCaseSays) {
  const Training c{
      .network = {.hidden = {{.width = 3, .bias = true, .relu = true}}, .branches = 2, .inputs = 4},
      .seed = 9};
  const Network network(c, 5);
  const auto named = network.named_parameters();
  const auto expected = initial_parameters(c, 5);
  ASSERT_EQ(named.size(), expected.size());
  for (size_t p = 0; p < expected.size(); ++p) {
    EXPECT_EQ(named[p].key(), expected[p].name);
    EXPECT_TRUE(at::equal(named[p].value(), expected[p].value));
  }
}

TEST(TrainingCase, RanksBuildFromDifferentSeeds) {
  const Training c{.network = {.inputs = 8}};
  EXPECT_FALSE(at::equal(initial_parameters(c, build_seed(c, 0))[0].value,
                         initial_parameters(c, build_seed(c, 1))[0].value));
}

TEST(TrainingCase, ASamplesValuesDoNotDependOnThePartItIsIn) {
  const Training c{.network = {.inputs = 3}, .batch_log2 = 4};
  const auto whole = inputs(c, 2, {0, 16});
  EXPECT_TRUE(at::equal(inputs(c, 2, {5, 9}), whole.slice(0, 5, 9)));
  EXPECT_FALSE(at::equal(inputs(c, 1, {0, 16}), whole));
}

TEST(TrainingCase, TrainingThatOutgrowsItsDtypeIsRefused) {
  const Training c{.world = {.size = 2},
                   .steps = 8,
                   .network = {.hidden = {{.width = 4}, {.width = 4}}, .inputs = 3},
                   .batch_log2 = 4,
                   .optimizer = OptimizerKind::sgd};
  EXPECT_THROW(expected_steps(c), Refused);
}

// A generator that never drew what its scenario is for would make every pass hollow.
TEST(TrainingCase, TheFeaturesThatMistakesHideInAreDrawnOften) {
  const auto scenario = scenario_in_catalogue("gradients.match_single_process");
  constexpr int kDraws = 400;
  int three_ranks = 0, uneven = 0, empty = 0, small_buckets = 0, steps = 0, orders = 0, refused = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto c = from_json<Training>(scenario.draw(static_cast<uint64_t>(i), i % 100).value, "c");
    three_ranks += c.world.size >= 3;
    steps += c.steps >= 2;
    orders += c.network.order_by_rank && c.network.branches >= 2 && c.steps >= 2;
    small_buckets += c.options.bucket_cap_bytes > 0 && c.options.bucket_cap_bytes < 100;
    bool parts_differ = false, part_is_empty = false;
    for (int rank = 0; rank < c.world.size; ++rank) {
      const auto part = part_of_batch(c, rank), first = part_of_batch(c, 0);
      parts_differ |= part.end - part.begin != first.end - first.begin;
      part_is_empty |= part.end == part.begin;
    }
    uneven += parts_differ;
    empty += part_is_empty;
    try {
      expected_steps(c);
    } catch (const Refused&) {
      ++refused;
    }
  }
  EXPECT_GE(three_ranks, kDraws / 3);
  EXPECT_GE(steps, kDraws / 3);
  EXPECT_GE(uneven, kDraws / 3);
  EXPECT_GE(empty, kDraws / 20);
  EXPECT_GE(small_buckets, kDraws / 3);
  EXPECT_GE(orders, kDraws / 10);
  EXPECT_LE(refused, kDraws / 5) << "too many cases have no exact reference";
}

}  // namespace
}  // namespace lockstep::scenarios
