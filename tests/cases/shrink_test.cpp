#include "harness/cases/shrink.h"

#include "harness/cases/draw.h"
#include "tests/campaign/planted.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <set>

namespace lockstep {
namespace {

using planted::Bug;
using planted::Planted;
using planted::PlantedTrials;

constexpr int64_t kRunsMost = 2000;

// Runs with the judge between, as a campaign does.
struct Bench {
  explicit Bench(const Bug& bug) : bug(bug) {}

  Verdict verdict(const Case& c) const { return judge(scenario, c, run(bug, c)); }

  // From `start`, which fails, to its smallest case, as shrink_failure searches.
  Descent shrunk(const Case& start) {
    auto goal = verdict(start);
    PlantedTrials trials([&](const Case& c) { return shows_failure(verdict(c), goal); });
    Search search(trials);
    search.allow(TrialTime::max(), kRunsMost);
    auto descent = shrink(scenario, start, search, [&](const Case& c, int) {
      if (verdict(c).signature() == goal.signature()) return;
      goal = verdict(c);
      search.narrow();
    });
    runs = search.runs();
    return descent;
  }

  const Bug& bug;
  Scenario scenario = planted::scenario_of_planted();
  int64_t runs = 0;
};

TEST(Shrink, EveryPlantedBugIsShrunkFromALargeCaseToItsKnownMinimum) {
  ASSERT_GE(planted::bugs().size(), 12u);
  for (const auto& bug : planted::bugs()) {
    auto start = planted::large_case();
    bug.plant(start);
    ASSERT_TRUE(bug.strikes(start)) << bug.name;
    ASSERT_TRUE(bug.strikes(bug.smallest)) << bug.name;
    Bench bench(bug);
    const auto began = std::chrono::steady_clock::now();
    const auto descent = bench.shrunk(planted::erased(start));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
    EXPECT_EQ(descent.smallest().value.dump(), to_json(bug.smallest).dump()) << bug.name;
    EXPECT_TRUE(descent.is_smallest) << bug.name;
    std::cout << std::setw(52) << std::left << bug.name << std::right << std::setw(4)
              << descent.path.size() - 1 << " steps" << std::setw(6) << bench.runs << " runs"
              << std::setw(8) << std::fixed << std::setprecision(1) << took.count() << " ms\n";
  }
}

// The first case of a seed's 2,000 on which each bug strikes.
std::vector<Case> first_struck(uint64_t seed, std::vector<size_t>& latest) {
  const auto& bugs = planted::bugs();
  const auto cases = draw_cases(planted::scenario_of_planted(), {.seed = seed, .cases = 2000});
  std::vector<Case> first(bugs.size());
  size_t left = bugs.size();
  for (size_t index = 0; index < cases.size() && left > 0; ++index) {
    const Case c = cases[index];
    const auto value = planted::typed(c);
    for (size_t bug = 0; bug < bugs.size(); ++bug)
      if (first[bug].scenario.empty() && bugs[bug].strikes(value)) {
        first[bug] = c;
        latest[bug] = std::max(latest[bug], index + 1);
        --left;
      }
  }
  return first;
}

// LOCKSTEP_CAMPAIGNS=1 tries ten seeds.
TEST(Shrink, EveryPlantedBugIsFoundFromEachSeedWithinTwoThousandCasesAndShrunk) {
  const uint64_t seeds = std::getenv("LOCKSTEP_CAMPAIGNS") ? 10 : 3;
  const auto& bugs = planted::bugs();
  std::vector<size_t> latest(bugs.size());
  std::vector<int64_t> most(bugs.size());
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto first = first_struck(seed, latest);
    for (size_t bug = 0; bug < bugs.size(); ++bug) {
      ASSERT_FALSE(first[bug].scenario.empty()) << bugs[bug].name << ", seed " << seed;
      Bench bench(bugs[bug]);
      EXPECT_TRUE(is_failure(bench.verdict(first[bug]).kind));
      EXPECT_EQ(bench.shrunk(first[bug]).smallest().value.dump(),
                to_json(bugs[bug].smallest).dump())
          << bugs[bug].name << ", seed " << seed;
      most[bug] = std::max(most[bug], bench.runs);
    }
  }
  for (size_t bug = 0; bug < bugs.size(); ++bug)
    std::cout << std::setw(52) << std::left << bugs[bug].name << std::right << " found by case "
              << std::setw(4) << latest[bug] << ", shrunk in " << std::setw(4) << most[bug]
              << " runs at most\n";
}

TEST(Shrink, EveryCaseOnTheWayFailsAsTheOneBeforeOrExplainsMore) {
  for (const auto& bug : planted::bugs()) {
    auto start = planted::large_case();
    bug.plant(start);
    Bench bench(bug);
    auto before = bench.verdict(planted::erased(start));
    EXPECT_EQ(before.findings.at(0).specificity == Specificity::which_ranks, bug.hides != nullptr);
    for (const auto& c : bench.shrunk(planted::erased(start)).path) {
      EXPECT_TRUE(shows_failure(bench.verdict(c), before)) << bug.name;
      EXPECT_EQ(bench.scenario.parse(c.value), c) << bug.name;
      before = bench.verdict(c);
    }
    EXPECT_EQ(before.findings.at(0).specificity, Specificity::explanation) << bug.name;
  }
}

// Neither field gets smaller alone, so that the way down leads over two steps at once.
TEST(Shrink, NoCaseOutsideThePreconditionRunsAndTheSearchGoesPastIt) {
  auto scenario = planted::scenario_of_planted();
  scenario.unmet_precondition = [](const Case& c) {
    const auto is = planted::typed(c);
    return is.world.size == 2 * is.groups ? "" : "groups must be half the world";
  };
  auto start = planted::large_case();
  start.world.size = 8;
  start.groups = 4;
  PlantedTrials trials([&](const Case& c) {
    EXPECT_TRUE(scenario.unmet_precondition(c).empty()) << c.value.dump();
    return planted::typed(c).groups >= 2;
  });
  Search search(trials);
  search.allow(TrialTime::max(), kRunsMost);
  const auto descent = shrink(scenario, planted::erased(start), search);
  EXPECT_TRUE(descent.is_smallest);
  EXPECT_EQ(planted::typed(descent.smallest()), (Planted{.world = {.size = 4}, .groups = 2}));
}

TEST(Shrink, ACaseWithTheWorldOfAnotherBugIsLeftAlone) {
  // Both bugs strike at first; candidates that show the other one alone are not taken.
  const auto& wrong_number = planted::bugs()[5];  // four micro-batches in the third step
  const auto& hang = planted::bugs()[1];
  const auto scenario = planted::scenario_of_planted();
  const auto verdict = [&](const Case& c) {
    return judge(scenario, c, run(hang.strikes(planted::typed(c)) ? hang : wrong_number, c));
  };
  auto start = planted::erased(planted::large_case());
  const auto signature = verdict(start).signature();
  ASSERT_TRUE(signature.starts_with("hang"));
  PlantedTrials trials([&](const Case& c) { return verdict(c).signature() == signature; });
  Search search(trials);
  search.allow(TrialTime::max(), kRunsMost);
  EXPECT_EQ(planted::typed(shrink(scenario, start, search).smallest()), hang.smallest);
}

TEST(Shrink, ABudgetOfRunsEndsItWithTheSmallestSoFar) {
  const auto& bug = planted::bugs()[0];
  auto start = planted::large_case();
  bug.plant(start);
  const auto scenario = planted::scenario_of_planted();
  PlantedTrials trials([&](const Case& c) { return bug.strikes(planted::typed(c)); });
  Search search(trials);
  search.allow(TrialTime::max(), 30);
  const auto descent = shrink(scenario, planted::erased(start), search);
  EXPECT_EQ(search.runs(), 30);
  EXPECT_EQ(trials.runs, 30);
  EXPECT_FALSE(descent.is_smallest);
  EXPECT_GT(descent.path.size(), 3u);
  EXPECT_TRUE(bug.strikes(planted::typed(descent.smallest())));
  // A second search that starts there comes to the same end as one without a pause.
  search.allow(TrialTime::max(), kRunsMost);
  EXPECT_EQ(shrink(scenario, descent.smallest(), search).smallest().value.dump(),
            to_json(bug.smallest).dump());
}

TEST(Shrink, NoCaseRunsTwice) {
  std::set<std::string> hashes;
  const auto& bug = planted::bugs()[4];
  auto start = planted::large_case();
  bug.plant(start);
  PlantedTrials trials([&](const Case& c) {
    EXPECT_TRUE(hashes.insert(hash_of(c)).second) << c.value.dump();
    return bug.strikes(planted::typed(c));
  });
  Search search(trials);
  search.allow(TrialTime::max(), kRunsMost);
  shrink(planted::scenario_of_planted(), planted::erased(start), search);
  EXPECT_GT(hashes.size(), 20u);
}

}  // namespace
}  // namespace lockstep
