#include "harness/engine/draw.h"

#include "tests/engine/toys.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

using toys::holds_unless_one;
using toys::value_of;

TEST(Draw, TheSameSeedGivesTheSameCases) {
  const auto scenario = holds_unless_one();
  EXPECT_EQ(draw_cases(scenario, {.seed = 7}), draw_cases(scenario, {.seed = 7}));
}

TEST(Draw, AnotherSeedGivesOtherCases) {
  const auto scenario = holds_unless_one();
  EXPECT_NE(draw_cases(scenario, {.seed = 7}), draw_cases(scenario, {.seed = 8}));
}

TEST(Draw, ScenariosOfOneRunDoNotShareTheirCases) {
  const auto values = [](const std::vector<Case>& cases) {
    std::vector<int64_t> out;
    for (const auto& c : cases) out.push_back(value_of(c));
    return out;
  };
  EXPECT_NE(values(draw_cases(holds_unless_one("toys.a"), {.seed = 7})),
            values(draw_cases(holds_unless_one("toys.b"), {.seed = 7})));
}

TEST(Draw, SchedulesAreDrawnBesideTheCasesAndChangeNothingElse) {
  const auto scenario = holds_unless_one();
  const auto plain = draw_cases(scenario, {.seed = 7});
  const auto scheduled = draw_cases(scenario, {.seed = 7, .schedules = true});
  ASSERT_EQ(scheduled.size(), plain.size());
  std::set<std::string> policies, reductions;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(value_of(scheduled[i]), value_of(plain[i]));
    EXPECT_EQ(world_of(plain[i]).schedule, Schedule{});
    policies.insert(world_of(scheduled[i]).schedule.policy);
    reductions.insert(world_of(scheduled[i]).reduction);
  }
  EXPECT_EQ(policies, (std::set<std::string>{"listed", "priority", "uniform"}));
  EXPECT_EQ(reductions, (std::set<std::string>{"flat", "permuted", "ring", "tree"}));
}

TEST(Draw, AScheduleThatIsFixedStaysFixed) {
  const auto cases = draw_cases(
      holds_unless_one(), {.seed = 7, .schedules = true, .set = {{"world.reduction", "tree"}}});
  for (const auto& c : cases) EXPECT_EQ(world_of(c).reduction, "tree");
}

TEST(Draw, ResultsOfSomeDrawnCasesComeLateAndNothingElseChanges) {
  const auto scenario = holds_unless_one();
  const auto plain = draw_cases(scenario, {.seed = 7});
  const auto late = draw_cases(scenario, {.seed = 7, .late_results = true});
  ASSERT_EQ(late.size(), plain.size());
  size_t count = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    auto world = world_of(late[i]);
    if (!world.injections.empty()) {
      ++count;
      ASSERT_EQ(world.injections.size(), 1u);
      EXPECT_EQ(world.injections[0].kind, "late");
      EXPECT_LT(world.injections[0].rank, world.size);
      EXPECT_GT(world.injections[0].amount, 0);
    }
    world.injections.clear();
    EXPECT_EQ(world, world_of(plain[i]));
    EXPECT_EQ(value_of(late[i]), value_of(plain[i]));
  }
  EXPECT_GT(count, plain.size() / 8);
  EXPECT_LT(count, plain.size() / 2);
}

TEST(Draw, ACaseWithAnInjectionGetsNoLateResults) {
  const std::string own = R"([{"kind":"kill","rank":0,"collective":1}])";
  const auto cases = draw_cases(
      holds_unless_one(), {.seed = 7, .late_results = true, .set = {{"world.injections", own}}});
  for (const auto& c : cases) EXPECT_EQ(world_of(c).injections.at(0).kind, "kill");
}

TEST(Draw, NoCaseComesTwice) {
  std::set<std::string> hashes;
  const auto cases = draw_cases(holds_unless_one(), {.seed = 1, .cases = 300});
  for (const auto& c : cases) hashes.insert(hash_of(c));
  EXPECT_EQ(hashes.size(), cases.size());
  EXPECT_EQ(cases.size(), 300u);
}

// RapidCheck's size decides how far from the smallest a draw may lie.
TEST(Draw, CasesHaveTheirFullSizeAfterTheFirstQuarter) {
  auto scenario = holds_unless_one();
  std::vector<int> sizes;
  scenario.draw = [&, draw = scenario.draw](uint64_t seed, int size) {
    sizes.push_back(size);
    return draw(seed, size);
  };
  draw_cases(scenario, {.seed = 1, .cases = 40});
  ASSERT_GE(sizes.size(), 40u);
  EXPECT_EQ(sizes.front(), 0);
  EXPECT_EQ(sizes[5], 50);
  EXPECT_EQ(sizes[10], 100);
  EXPECT_EQ(sizes.back(), 100);
}

TEST(Draw, EveryWorldIsAmongThoseAskedFor) {
  std::set<int> worlds;
  for (const auto& c : draw_cases(holds_unless_one(), {.seed = 1, .worlds = {5, 9}}))
    worlds.insert(world_size(c));
  EXPECT_EQ(worlds, (std::set<int>{5, 9}));
}

TEST(Draw, ExhaustiveCasesComeInEveryWorldAskedForOnce) {
  auto scenario = holds_unless_one();
  scenario.draws = 0;
  scenario.every = [] { return toys::job_of(holds_unless_one(), {3, 4}).cases; };
  EXPECT_EQ(draw_cases(scenario, {}).size(), 2u);
  EXPECT_EQ(draw_cases(scenario, {.worlds = {2, 5}}).size(), 4u);
  EXPECT_EQ(draw_cases(scenario, {.cases = 10}).size(), 2u) << "it draws none by default";
}

TEST(Draw, AFixedFieldIsTheSameInEveryCase) {
  for (const auto& c : draw_cases(holds_unless_one(), {.set = {{"world.size", "6"}}}))
    EXPECT_EQ(world_size(c), 6);
}

TEST(Draw, AnUnknownFieldIsRefusedByPath) {
  try {
    draw_cases(holds_unless_one(), {.set = {{"valeu", "6"}}});
    FAIL() << "it was accepted";
  } catch (const FieldError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'value'"), std::string::npos)
        << error.what();
  }
}

TEST(Draw, AFieldOutsideItsLimitsIsRefused) {
  EXPECT_THROW(draw_cases(holds_unless_one(), {.set = {{"value", "1001"}}}), FieldError);
  EXPECT_THROW(draw_cases(holds_unless_one(), {.set = {{"value", "many"}}}), FieldError);
}

TEST(Draw, ArchivedCasesComeFirst) {
  const auto archived = toys::job_of(holds_unless_one(), {123}).cases;
  EXPECT_EQ(draw_cases(holds_unless_one(), {.seed = 7}, archived).front(), archived.front());
}

TEST(Draw, AnArchivedCaseThatFlagsWouldChangeIsLeftOut) {
  const auto archived = toys::job_of(holds_unless_one(), {123}).cases;
  for (const DrawOptions& options :
       {DrawOptions{.worlds = {3}}, DrawOptions{.set = {{"value", "4"}}}})
    for (const auto& c : draw_cases(holds_unless_one(), options, archived))
      EXPECT_NE(c, archived.front());
}

TEST(Draw, WhatConcernsSimulatedWorldsIsToldWhereItSaysSomething) {
  Case c = holds_unless_one().smallest();
  EXPECT_EQ(told_of(c).at("world"), (Json{{"injections", Json::array()}, {"size", 2}}));
  c.value["world"]["reduction"] = "ring";
  EXPECT_EQ(told_of(c).at("world").at("reduction"), "ring");
}

TEST(Draw, WhatDiffersFromTheDefaultIsAllThatIsLeft) {
  const auto defaults = Json::parse(R"({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]})");
  const auto value = Json::parse(R"({"a": 1, "b": {"c": 2, "d": 4}, "e": []})");
  EXPECT_EQ(unlike(value, defaults).dump(), R"({"b":{"d":4},"e":[]})");
  EXPECT_EQ(unlike(defaults, defaults).dump(), "{}");
}

}  // namespace
}  // namespace lockstep
