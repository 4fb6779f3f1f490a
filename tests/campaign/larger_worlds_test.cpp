// Checks that a pattern of the world's size is taken back where larger worlds show another one.
#include "harness/campaign/larger_worlds.h"

#include "tests/campaign/bench.h"
#include "tests/campaign/planted.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using toys::Bench;
using toys::FakeTier;

// In a world of two a value that is twice what it must be is also the sum of the ranks'.
TEST(LargerWorlds, TakeBackAPatternOfTheWorldSizeThatTheyDoNotShow) {
  const std::vector<Case> cases{planted::erased({.world = {.size = 2}})};
  constexpr int kSum = 4, kOther = 3;
  for (const bool is_by_chance : {false, true}) {
    const auto history_of = [is_by_chance](const Case& c, FakeTier&) {
      return toys::recorded(c, world_size(c) < 2                   ? 0
                               : is_by_chance && world_size(c) > 2 ? kOther
                                                                   : kSum);
    };
    Bench bench;
    const auto run =
        bench.run({{planted::scenario_of_planted(), {.tier = "sim", .backend = "memory"}, cases}},
                  history_of, {.shrink = ShrinkOptions{.time = std::chrono::minutes(10)}});
    const auto& finding = run.results.at(0).worst.findings.at(0);
    EXPECT_EQ(finding.pattern, is_by_chance ? "" : "sum_not_average");
    EXPECT_EQ(finding.diagnosis, is_by_chance
                                     ? "a rank saw the sum; with 3 ranks: a rank saw something"
                                     : "a rank saw the sum");
  }
}

// The second setting takes the smallest case of the first, and runs no larger world itself.
TEST(LargerWorlds, TakeBackThePatternOfASmallestCaseInEverySetting) {
  const auto history_of = [](const Case& c, FakeTier&) {
    constexpr int kSum = 4, kOther = 3;
    return toys::recorded(c, world_size(c) < 2 ? 0 : world_size(c) > 2 ? kOther : kSum);
  };
  const auto job = [](const std::string& tier, const planted::Planted& c) {
    return Job{
        planted::scenario_of_planted(), {.tier = tier}, std::vector<Case>{planted::erased(c)}};
  };
  Bench bench;
  const auto run =
      bench.run({job("sim", {.world = {.size = 2}, .steps = 2}),
                 job("cold", {.world = {.size = 2}, .steps = 3})},
                history_of, {.shrink = ShrinkOptions{.time = std::chrono::minutes(10)}});
  for (const auto& result : run.results) {
    EXPECT_EQ(result.failure->shrunk->tier, "sim");
    const auto& finding = result.worst.findings.at(0);
    EXPECT_EQ(finding.pattern, "") << result.setting.tier;
    EXPECT_EQ(finding.diagnosis, "a rank saw the sum; with 3 ranks: a rank saw something");
  }
}

TEST(LargerWorlds, NameARowOnceAndSayAnotherOne) {
  const auto place_in = [](const char* record) { return FindingPlace({0, "after"}, record); };
  const Finding found{"Ranks must agree", "divided_twice", place_in("w"), "w: divided twice"};
  for (const auto& [record, there, said] :
       {std::tuple{"w", "w: differs", "w: divided twice; with 3 ranks: differs"},
        {"b", "b: differs", "w: divided twice; with 3 ranks: b: differs"}}) {
    auto finding = found;
    const Finding other{"Ranks must agree", "every_rank_differs", place_in(record), there};
    EXPECT_TRUE(contradict(finding, {Verdict::Kind::fail, {other}}, 3));
    EXPECT_EQ(finding.diagnosis, said);
  }
  auto finding = found;
  EXPECT_FALSE(contradict(finding, {Verdict::Kind::fail, {found}}, 3));
  EXPECT_FALSE(contradict(finding, {Verdict::Kind::fail, {{"Another rule", "x", {}, "w: x"}}}, 3));
  EXPECT_FALSE(contradict(finding, {}, 3));
  EXPECT_EQ(finding, found);
}

}  // namespace
}  // namespace lockstep
