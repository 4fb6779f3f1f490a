#include "harness/engine/shrink.h"

#include "harness/engine/draw.h"
#include "tests/engine/planted.h"
#include "tests/engine/toys.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iomanip>
#include <iostream>
#include <queue>
#include <set>

namespace lockstep {
namespace {

using planted::Bug;
using planted::Planted;
using planted::PlantedTrials;

constexpr int64_t kRunsMost = 2000;

// Plays with the judge between, as a campaign does.
struct Bench {
  explicit Bench(const Bug& bug) : bug(bug) {}

  Verdict verdict(const Case& c) const { return judge(scenario, c, played(bug, c)); }

  // From `start`, which fails, to its smallest case.
  Descent shrunk(const Case& start) {
    const auto signature = verdict(start).signature();
    PlantedTrials trials(
        [&, signature](const Case& c) { return verdict(c).signature() == signature; });
    Search search(trials);
    search.allow(TrialTime::max(), kRunsMost);
    auto descent = shrink(scenario, start, search);
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

TEST(Shrink, EveryPlantedBugIsFoundFromTenSeedsWithinTwoThousandCasesAndShrunk) {
  const auto& bugs = planted::bugs();
  std::vector<size_t> latest(bugs.size());
  std::vector<int64_t> most(bugs.size());
  for (uint64_t seed = 1; seed <= 10; ++seed) {
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

TEST(Shrink, EveryCaseOnTheWayFailsWithTheSignatureOfTheFirst) {
  for (const auto& bug : planted::bugs()) {
    auto start = planted::large_case();
    bug.plant(start);
    Bench bench(bug);
    const auto signature = bench.verdict(planted::erased(start)).signature();
    for (const auto& c : bench.shrunk(planted::erased(start)).path) {
      EXPECT_EQ(bench.verdict(c).signature(), signature) << bug.name;
      EXPECT_EQ(bench.scenario.parse(c.value), c) << bug.name;
    }
  }
}

TEST(Shrink, ACaseWithTheWorldOfAnotherBugIsLeftAlone) {
  // Both bugs strike at first; candidates that show the other one alone are not taken.
  const auto& wrong_number = planted::bugs()[5];  // four micro-batches in the third step
  const auto& hang = planted::bugs()[1];
  const auto scenario = planted::scenario_of_planted();
  const auto verdict = [&](const Case& c) {
    return judge(scenario, c, played(hang.strikes(planted::typed(c)) ? hang : wrong_number, c));
  };
  auto start = planted::erased(planted::large_case());
  const auto signature = verdict(start).signature();
  ASSERT_TRUE(signature.starts_with("hang"));
  PlantedTrials trials([&](const Case& c) { return verdict(c).signature() == signature; });
  Search search(trials);
  search.allow(TrialTime::max(), kRunsMost);
  EXPECT_EQ(planted::typed(shrink(scenario, start, search).smallest()), hang.smallest);
}

// Small domains, where every smaller case can be enumerated.
struct Small {
  WorldSpec world;
  int steps = 1, groups = 1;
  std::vector<int> parts;
  bool flag = false;
  std::string mode = "a";
  uint64_t seed = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &Small::world),
                      field("steps", &Small::steps, between(1, 6)),
                      field("groups", &Small::groups, between(1, 4)),
                      field("parts", &Small::parts, between(0, 2)),
                      field("flag", &Small::flag),
                      field("mode", &Small::mode, one_of("a|b|c")),
                      field("seed", &Small::seed, {}, Cost::numbers)};
  }
};

Scenario small_scenario() {
  return scenario<Small>({.name = "toys.small",
                          .cases = rc::gen::just(Small{}),
                          .program = [](const Small&, RankContext&) {},
                          .checks = {}});
}

Case erased(const Small& c) {
  return {"toys.small", to_json(c)};
}

// Obvious and slow: every case below the start, by any number of steps.
std::vector<Case> all_below(const Scenario& scenario, const Case& start) {
  std::map<std::string, Case> seen{{start.value.dump(), start}};
  std::queue<Case> open({start});
  for (; !open.empty(); open.pop())
    for (const auto& c : scenario.smaller(open.front()))
      if (seen.try_emplace(c.value.dump(), c).second) open.push(c);
  std::vector<Case> all;
  for (auto& [text, c] : seen) all.push_back(std::move(c));
  return all;
}

// Cost to a reader, of the fields that are numbers, flags or words.
auto cost_of(const Case& c) {
  const auto is = from_json<Small>(c.value, "case");
  return std::tuple(is.world.size, is.steps, is.groups, is.flag, is.mode, is.seed);
}

Descent shrunk(const Scenario& scenario, const Case& start,
               const std::function<bool(const Case&)>& fails) {
  PlantedTrials trials(fails);
  Search search(trials);
  search.allow(TrialTime::max(), 1'000'000);
  return shrink(scenario, start, search);
}

// Fails where one of a few conjunctions of lower bounds holds: what is harder than a failing case
// fails as well.
struct Bounds {
  int world, steps, groups;
  bool flag;
  int mode;
  uint64_t seed;
  bool hold(const Small& c) const {
    return c.world.size >= world && c.steps >= steps && c.groups >= groups && c.flag >= flag &&
           c.mode[0] - 'a' >= mode && c.seed >= seed;
  }
};

TEST(Shrink, WhereHarderCasesFailTooTheSmallestIsTheOneAnExhaustiveSearchFinds) {
  const auto scenario = small_scenario();
  const auto start =
      erased({.world = {.size = 4}, .steps = 5, .groups = 3, .flag = true, .mode = "c", .seed = 3});
  const auto below = all_below(scenario, start);
  ASSERT_EQ(below.size(), 4u * 5 * 3 * 2 * 3 * 4);
  EXPECT_TRUE(rc::check([&] {
    const auto any = [](int least, int most) { return *rc::gen::inRange(least, most + 1); };
    std::vector<Bounds> some(static_cast<size_t>(any(1, 4)));
    for (auto& one : some)
      one = {any(1, 4),      any(1, 5), any(1, 3),
             any(0, 1) == 1, any(0, 2), static_cast<uint64_t>(any(0, 3))};
    const auto fails = [&](const Case& c) {
      const auto is = from_json<Small>(c.value, "case");
      return std::any_of(some.begin(), some.end(), [&](const Bounds& one) { return one.hold(is); });
    };
    const Case* least = nullptr;
    for (const auto& c : below)
      if (fails(c) && (!least || cost_of(c) < cost_of(*least))) least = &c;
    RC_ASSERT(least != nullptr);
    RC_ASSERT(shrunk(scenario, start, fails).smallest().value.dump() == least->value.dump());
  }));
}

TEST(Shrink, WhateverFailsNoCaseOneOrTwoStepsBelowTheSmallestDoes) {
  const auto scenario = small_scenario();
  EXPECT_TRUE(rc::check([&] {
    const auto salt = *rc::gen::arbitrary<uint32_t>();
    const auto share = *rc::gen::inRange(1, 60);  // of all cases, in percent
    const auto start =
        erased({.world = {.size = *rc::gen::inRange(1, 5)},
                .steps = *rc::gen::inRange(1, 6),
                .parts = *rc::gen::container<std::vector<int>>(
                    static_cast<size_t>(*rc::gen::inRange(0, 3)), rc::gen::inRange(0, 3)),
                .flag = *rc::gen::arbitrary<bool>(),
                .seed = *rc::gen::inRange<uint64_t>(0, 4)});
    const auto fails = [&](const Case& c) {
      return c == start || std::stoull(hash_of(c).substr(0, 8), nullptr, 16) * (salt | 1) % 100 <
                               static_cast<uint64_t>(share);
    };
    const auto descent = shrunk(scenario, start, fails);
    RC_ASSERT(descent.is_smallest);
    RC_ASSERT(fails(descent.smallest()));
    for (const auto& one : scenario.smaller(descent.smallest())) {
      RC_ASSERT(!fails(one));
      for (const auto& two : scenario.smaller(one)) RC_ASSERT(!fails(two));
    }
  }));
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
  EXPECT_EQ(trials.plays, 30);
  EXPECT_FALSE(descent.is_smallest);
  EXPECT_GT(descent.path.size(), 3u);
  EXPECT_TRUE(bug.strikes(planted::typed(descent.smallest())));
  // A second search that starts there comes to the same end as one without a pause.
  search.allow(TrialTime::max(), kRunsMost);
  EXPECT_EQ(shrink(scenario, descent.smallest(), search).smallest().value.dump(),
            to_json(bug.smallest).dump());
}

TEST(Shrink, NoCaseIsPlayedTwice) {
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
