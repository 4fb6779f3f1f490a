// Shrinking over small domains, where every case can be enumerated, and from cases as they are
// drawn, whatever fails.
#include "harness/cases/generators.h"
#include "harness/cases/shrink.h"
#include "tests/campaign/planted.h"

#include <gtest/gtest.h>

#include <map>
#include <queue>

namespace lockstep {
namespace {

using planted::PlantedTrials;

enum class Mode { a, b, c };

// Small domains, where every smaller case can be enumerated.
struct Small {
  WorldSpec world;
  int steps = 1, groups = 1;
  std::vector<int> parts;
  bool flag = false;
  Mode mode = Mode::a;
  uint64_t seed = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &Small::world),
                      field("steps", &Small::steps, between(1, 6)),
                      field("groups", &Small::groups, between(1, 4)),
                      field("parts", &Small::parts, between(0, 2)),
                      field("flag", &Small::flag),
                      field("mode", &Small::mode),
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
               const std::function<bool(const Case&)>& fails, int64_t runs_most = 1'000'000) {
  PlantedTrials trials(fails);
  Search search(trials);
  search.allow(TrialTime::max(), runs_most);
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
           static_cast<int>(c.mode) >= mode && c.seed >= seed;
  }
};

TEST(ShrinkProof, WhereHarderCasesFailTooTheSmallestIsTheOneAnExhaustiveSearchFinds) {
  const auto scenario = small_scenario();
  const auto start = erased(
      {.world = {.size = 4}, .steps = 5, .groups = 3, .flag = true, .mode = Mode::c, .seed = 3});
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

// Every case that a reader would call a step smaller, from the text of docs/shrinking.md alone.
std::vector<Small> a_step_below(const Small& c) {
  std::vector<Small> all;
  const auto add = [&](auto member, auto value) {
    all.push_back(c);
    all.back().*member = std::move(value);
  };
  for (int size = 1; size < c.world.size; ++size) {
    all.push_back(c);
    all.back().world.size = size;
  }
  for (int value = 1; value < c.steps; ++value) add(&Small::steps, value);
  for (int value = 1; value < c.groups; ++value) add(&Small::groups, value);
  if (!c.parts.empty()) add(&Small::parts, std::vector<int>());
  for (size_t i = 0; i < c.parts.size(); ++i) {
    auto parts = c.parts;
    for (int value = 0; value < c.parts[i]; ++value) {
      parts[i] = value;
      add(&Small::parts, parts);
    }
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    add(&Small::parts, parts);
  }
  for (int leaving = 0; leaving + 1 < c.world.size && !c.parts.empty(); ++leaving) {
    all.push_back(c);
    all.back().world.size = c.world.size - 1;
    all.back().parts.clear();
    for (int rank = 0; rank < c.world.size; ++rank)
      if (rank != leaving)
        all.back().parts.push_back(c.parts[static_cast<size_t>(rank) % c.parts.size()]);
  }
  if (c.flag) add(&Small::flag, false);
  for (const auto mode : {Mode::a, Mode::b})
    if (mode < c.mode) add(&Small::mode, mode);
  for (uint64_t seed = 0; seed < c.seed; ++seed) add(&Small::seed, seed);
  return all;
}

rc::Gen<Small> any_small() {
  using rc::gen::inRange;
  return gen::apply(
      [](int world, int steps, int groups, std::vector<int> parts, bool flag, Mode mode,
         uint64_t seed) {
        return Small{{.size = world}, steps, groups, std::move(parts), flag, mode, seed};
      },
      inRange(1, 5), inRange(1, 7), inRange(1, 5),
      rc::gen::resize(4, rc::gen::container<std::vector<int>>(inRange(0, 3))),
      rc::gen::arbitrary<bool>(), rc::gen::element(Mode::a, Mode::b, Mode::c),
      inRange<uint64_t>(0, 8));
}

// Cases fail as a hash has it, without any order: a search by steps ends in some minimum of many.
TEST(ShrinkProof, WhateverFailsNoCaseOneOrTwoStepsBelowTheSmallestDoes) {
  const auto scenario = small_scenario();
  EXPECT_TRUE(rc::check([&] {
    const auto salt = *rc::gen::arbitrary<uint32_t>();
    const auto share = *rc::gen::inRange<uint64_t>(1, 60);  // of all cases, in percent
    const auto start = erased(*any_small());
    const auto fails = [&](const Case& c) {
      return c == start ||
             std::stoull(hash_of(c).substr(0, 8), nullptr, 16) * (salt | 1) % 101 < share;
    };
    const auto descent = shrunk(scenario, start, fails);
    RC_ASSERT(descent.is_smallest);
    for (const auto& c : descent.path) RC_ASSERT(fails(c));
    const auto smallest = from_json<Small>(descent.smallest().value, "case");
    for (const auto& one : a_step_below(smallest)) {
      RC_ASSERT(!fails(erased(one)));
      for (const auto& two : a_step_below(one)) RC_ASSERT(!fails(erased(two)));
    }
  }));
}

// A subject with several bugs shows the first that strikes.
struct Faulty {
  std::vector<size_t> bugs;
  Scenario scenario = planted::scenario_of_planted();
  Verdict verdict(const Case& c) const {
    const auto value = planted::typed(c);
    for (const auto bug : bugs)
      if (planted::bugs()[bug].strikes(value))
        return judge(scenario, c, run(planted::bugs()[bug], c));
    return {};
  }
};

TEST(ShrinkProof, ADrawnCaseIsShrunkAmongOtherBugsToOneThatFailsAlikeTwiceTheSame) {
  constexpr int64_t kRunsMost = 300;
  int failing = 0, finished = 0;
  EXPECT_TRUE(rc::check([&] {
    const auto count = planted::bugs().size();
    Faulty faulty{*rc::gen::container<std::vector<size_t>>(4, rc::gen::inRange<size_t>(0, count))};
    const auto seed = *rc::gen::arbitrary<uint64_t>();
    const auto start = faulty.scenario.draw(seed, 30);
    RC_ASSERT(faulty.scenario.draw(seed, 30) == start);
    const auto verdict = faulty.verdict(start);
    if (verdict.kind == Verdict::Kind::pass) return;
    const auto fails = [&, signature = verdict.signature()](const Case& c) {
      return faulty.verdict(c).signature() == signature;
    };
    const auto descent = shrunk(faulty.scenario, start, fails, kRunsMost);
    for (const auto& c : descent.path) {
      RC_ASSERT(fails(c));
      RC_ASSERT(faulty.scenario.parse(c.value) == c);
      RC_ASSERT(parse_case_file(case_file({c, Origin{start.value, 1, true}}), "x") ==
                (SavedCase{c, Origin{start.value, 1, true}}));
    }
    if (descent.is_smallest)
      for (const auto& c : faulty.scenario.smaller(descent.smallest())) RC_ASSERT(!fails(c));
    RC_ASSERT(shrunk(faulty.scenario, start, fails, kRunsMost).path == descent.path);
    ++failing;
    finished += descent.is_smallest;
  }));
  EXPECT_GT(failing, 20);
  EXPECT_GT(finished, failing / 2);
}

}  // namespace
}  // namespace lockstep
