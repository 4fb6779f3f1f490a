#include "harness/cases/draw.h"

#include "harness/base/text.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

#include <malloc.h>
#include <set>

namespace lockstep {
namespace {

using toys::holds_unless_one;
using toys::value_of;

std::vector<Case> drawn(const Scenario& scenario, const DrawOptions& options,
                        const std::vector<Case>& archived = {}) {
  return toys::all_of(draw_cases(scenario, options, archived));
}

TEST(Draw, TheSameSeedGivesTheSameCases) {
  const auto scenario = holds_unless_one();
  EXPECT_EQ(drawn(scenario, {.seed = 7}), drawn(scenario, {.seed = 7}));
}

TEST(Draw, AnotherSeedGivesOtherCases) {
  const auto scenario = holds_unless_one();
  EXPECT_NE(drawn(scenario, {.seed = 7}), drawn(scenario, {.seed = 8}));
}

TEST(Draw, ScenariosOfOneRunDoNotShareTheirCases) {
  const auto values = [](const std::vector<Case>& cases) {
    std::vector<int64_t> out;
    for (const auto& c : cases) out.push_back(value_of(c));
    return out;
  };
  EXPECT_NE(values(drawn(holds_unless_one("toys.a"), {.seed = 7})),
            values(drawn(holds_unless_one("toys.b"), {.seed = 7})));
}

TEST(Draw, AThirdIsAtLeast25WhereAScenarioDrawsSoMany) {
  auto scenario = holds_unless_one();
  for (const auto& [draws, third] : {std::pair(10, 10), {25, 25}, {60, 25}, {90, 30}}) {
    scenario.draws = draws;
    const auto all = drawn(scenario, {.seed = 7}),
               some = drawn(scenario, {.seed = 7, .a_third = true});
    EXPECT_EQ(all.size() - some.size(), static_cast<size_t>(draws - third)) << draws;
    EXPECT_EQ(drawn(scenario, {.seed = 7, .cases = draws, .a_third = true}), all);
  }
}

TEST(Draw, AListThatGrowsBeginsWithTheSameCasesAndHasNoneTwice) {
  const auto scenario = holds_unless_one();
  const DrawOptions options{.seed = 7, .schedules = true};
  const auto plain = drawn(scenario, options);
  GrowingCases growing(scenario, options);
  for (int times = 0; times < 4; ++times) growing.grow();
  const auto all = toys::all_of(growing.list());
  ASSERT_EQ(all.size(), 5 * plain.size());
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), all.begin()));
  std::set<std::string> hashes;
  for (const auto& c : all) hashes.insert(hash_of(c));
  EXPECT_EQ(hashes.size(), all.size());
}

TEST(Draw, AListGrowsUntilThereIsNoOtherCase) {
  const auto scenario = holds_unless_one();
  GrowingCases growing(scenario, {.seed = 7, .worlds = {2}, .set = {{"value", "3"}}});
  EXPECT_EQ(growing.list().size(), 1u);
  EXPECT_EQ(growing.grow().size(), 1u);
}

TEST(Draw, SchedulesAreDrawnBesideTheCasesAndChangeNothingElse) {
  const auto scenario = holds_unless_one();
  const auto plain = drawn(scenario, {.seed = 7});
  const auto scheduled = drawn(scenario, {.seed = 7, .schedules = true});
  ASSERT_EQ(scheduled.size(), plain.size());
  std::set<SchedulePolicy> policies;
  std::set<ReductionShape> reductions;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(value_of(scheduled[i]), value_of(plain[i]));
    EXPECT_EQ(world_of(plain[i]).schedule, Schedule{});
    policies.insert(world_of(scheduled[i]).schedule.policy);
    reductions.insert(world_of(scheduled[i]).reduction);
  }
  EXPECT_EQ(policies,
            (std::set{SchedulePolicy::listed, SchedulePolicy::priority, SchedulePolicy::uniform}));
  EXPECT_EQ(reductions, (std::set{ReductionShape::flat, ReductionShape::permuted,
                                  ReductionShape::ring, ReductionShape::tree}));
}

TEST(Draw, AScheduleThatIsFixedStaysFixed) {
  const auto cases = drawn(holds_unless_one(),
                           {.seed = 7, .schedules = true, .set = {{"world.reduction", "tree"}}});
  for (const auto& c : cases) EXPECT_EQ(world_of(c).reduction, ReductionShape::tree);
}

// Its cases are about 4 KiB each; a number of another kind is in every tenth.
Scenario with_long_cases() {
  auto scenario = holds_unless_one();
  scenario.parse = [](const Json& value) { return Case{"toys.numbers", value}; };
  scenario.unmet_precondition = [](const Case&) { return ""; };
  scenario.draw = [](uint64_t seed, int) {
    return Case{"toys.numbers",
                {{"world", {{"size", 2 + static_cast<int>(seed % 3)}}},
                 {"values", seed % 10 == 0 ? "real" : "exact"},
                 {"seeds", std::vector<uint64_t>(128, seed)}}};
  };
  return scenario;
}

TEST(Draw, ManyCasesTakeAFewBytesEach) {
  const auto before = ::mallinfo2().uordblks;
  const auto cases = draw_cases(with_long_cases(), {.seed = 1, .cases = 5000});
  const auto held = ::mallinfo2().uordblks - before;
  ASSERT_EQ(cases.size(), 5000u);
  EXPECT_LT(held, 5000u * 64);
}

TEST(Draw, WhatIsKnownOfACaseWithoutDrawingItIsTrueOfIt) {
  const auto cases = draw_cases(with_long_cases(),
                                {.seed = 1, .cases = 50, .schedules = true, .late_results = true});
  std::string hashes;
  for (size_t index = 0; index < cases.size(); ++index) {
    EXPECT_EQ(cases.world_size(index), world_size(cases[index]));
    EXPECT_EQ(cases.values(index), cases[index].value["values"].get<std::string>());
    EXPECT_EQ(cases[index], cases[index]);
    hashes += hash_of(cases[index]);
  }
  EXPECT_EQ(cases.hash(), hash_of(hashes));
}

TEST(Draw, OnlyWhatWasArchivedIsSaidToBe) {
  const auto archived = toys::cases_of(holds_unless_one(), {123, 7, 123});
  EXPECT_EQ(draw_cases(holds_unless_one(), {.seed = 7}, archived).archived(), 2u);
  EXPECT_EQ(draw_cases(holds_unless_one(), {.seed = 7}).archived(), 0u);
}

TEST(Draw, WhoWaitsLearnsOfEachCaseThatIsLookedAt) {
  int looked_at = 0;
  const auto cases =
      draw_cases(holds_unless_one(), {.seed = 1, .cases = 300}, {}, [&] { ++looked_at; });
  EXPECT_GE(looked_at, static_cast<int>(cases.size()));
}

TEST(Draw, NoCaseComesTwice) {
  std::set<std::string> hashes;
  const auto cases = drawn(holds_unless_one(), {.seed = 1, .cases = 300});
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
  for (const auto& c : drawn(holds_unless_one(), {.seed = 1, .worlds = {5, 9}}))
    worlds.insert(world_size(c));
  EXPECT_EQ(worlds, (std::set<int>{5, 9}));
}

TEST(Draw, ExhaustiveCasesComeInEveryWorldAskedForOnce) {
  auto scenario = holds_unless_one();
  scenario.draws = 0;
  scenario.every = [] { return toys::cases_of(holds_unless_one(), {3, 4}); };
  EXPECT_EQ(drawn(scenario, {}).size(), 2u);
  EXPECT_EQ(drawn(scenario, {.worlds = {2, 5}}).size(), 4u);
  EXPECT_EQ(drawn(scenario, {.cases = 10}).size(), 2u) << "it draws none by default";
}

TEST(Draw, AFixedFieldIsTheSameInEveryCase) {
  for (const auto& c : drawn(holds_unless_one(), {.set = {{"world.size", "6"}}}))
    EXPECT_EQ(world_size(c), 6);
}

TEST(Draw, AnUnknownFieldIsRefusedByPath) {
  try {
    drawn(holds_unless_one(), {.set = {{"valeu", "6"}}});
    FAIL() << "it was accepted";
  } catch (const FieldError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'value'"), std::string::npos)
        << error.what();
  }
}

TEST(Draw, AFieldOutsideItsLimitsIsRefused) {
  EXPECT_THROW(drawn(holds_unless_one(), {.set = {{"value", "1001"}}}), FieldError);
  EXPECT_THROW(drawn(holds_unless_one(), {.set = {{"value", "many"}}}), FieldError);
}

TEST(Draw, ArchivedCasesComeFirst) {
  const auto archived = toys::cases_of(holds_unless_one(), {123});
  EXPECT_EQ(drawn(holds_unless_one(), {.seed = 7}, archived).front(), archived.front());
}

TEST(Draw, AnArchivedCaseThatFlagsWouldChangeIsLeftOut) {
  const auto archived = toys::cases_of(holds_unless_one(), {123});
  for (const DrawOptions& options :
       {DrawOptions{.worlds = {3}}, DrawOptions{.set = {{"value", "4"}}}})
    for (const auto& c : drawn(holds_unless_one(), options, archived))
      EXPECT_NE(c, archived.front());
}

TEST(Draw, AFewCasesAreTheArchivedOnesTheSmallestAndSomeOfEverySize) {
  const auto scenario = holds_unless_one();
  const auto archived = scenario.parse({{"value", 1}});
  const auto all = draw_cases(scenario, {.seed = 7, .cases = 100}, {archived});
  const auto few = all.a_few(8);
  ASSERT_EQ(few.size(), 9u);
  EXPECT_EQ(few.archived(), 1u);
  EXPECT_EQ(few[0], all[0]);
  EXPECT_EQ(few[1], all[1]);
  EXPECT_EQ(few[8], all[all.size() - 1]);
  for (size_t i = 1; i < few.size(); ++i)
    EXPECT_EQ(few[i], all[1 + (i - 1) * (all.size() - 2) / 7]);
  EXPECT_NE(few.hash(), all.hash());
  EXPECT_EQ(few.hash(), all.a_few(8).hash());
  EXPECT_EQ(all.a_few(1000).hash(), all.hash());
}

TEST(Draw, WhatIsArchivedChangesNoOtherCaseOfTheList) {
  const auto scenario = holds_unless_one();
  const auto plain = drawn(scenario, {.seed = 7});
  const auto archived = std::vector{plain[5], toys::cases_of(scenario, {1000}).front()};
  const auto with = drawn(scenario, {.seed = 7}, archived);
  auto expected = archived;
  for (const auto& c : plain)
    if (std::find(archived.begin(), archived.end(), c) == archived.end()) expected.push_back(c);
  EXPECT_EQ(with, expected);
}

// Cases above 500 are hard.
Scenario with_a_label() {
  auto scenario = holds_unless_one();
  scenario.required_shares = {{"odd", 0.3}, {"hard", 0.3}};
  scenario.labels = [](const Case& c) {
    return static_cast<uint32_t>(value_of(c) % 2 == 1) | (value_of(c) > 500 ? 2u : 0u);
  };
  return scenario;
}

TEST(Draw, LabelsAreKnownOfDrawnCasesAlone) {
  auto scenario = with_a_label();
  scenario.every = [] { return toys::cases_of(holds_unless_one(), {901}); };
  const auto archived = toys::cases_of(scenario, {903});
  const auto cases = draw_cases(scenario, {.seed = 7}, archived);
  for (size_t index = 0; index < cases.size(); ++index) {
    EXPECT_EQ(cases.is_drawn(index), index >= 2);
    EXPECT_EQ(cases.labels(index), index >= 2 ? scenario.labels(cases[index]) : 0u);
  }
}

}  // namespace
}  // namespace lockstep
