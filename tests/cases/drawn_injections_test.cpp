#include "harness/cases/draw.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

using toys::holds_unless_one;
using toys::value_of;

std::vector<Case> drawn(const Scenario& scenario, const DrawOptions& options) {
  return toys::all_of(draw_cases(scenario, options));
}

TEST(DrawnInjections, ResultsOfSomeDrawnCasesComeLateAndNothingElseChanges) {
  const auto scenario = holds_unless_one();
  const auto plain = drawn(scenario, {.seed = 7});
  const auto late = drawn(scenario, {.seed = 7, .late_results = true});
  ASSERT_EQ(late.size(), plain.size());
  size_t count = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    auto world = world_of(late[i]);
    if (!world.injections.empty()) {
      ++count;
      ASSERT_EQ(world.injections.size(), 1u);
      EXPECT_EQ(world.injections[0].kind, InjectionKind::late);
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

TEST(DrawnInjections, InSomeDrawnCasesARankLagsAndNothingElseChanges) {
  const auto scenario = holds_unless_one();
  const auto plain = drawn(scenario, {.seed = 7, .cases = 200});
  const auto lagging = drawn(scenario, {.seed = 7, .cases = 200, .lags = true});
  ASSERT_EQ(lagging.size(), plain.size());
  std::set<int> ranks, collectives;
  size_t count = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    auto world = world_of(lagging[i]);
    for (const auto& each : world.injections) {
      EXPECT_EQ(each.kind, InjectionKind::delay);
      EXPECT_GT(each.amount, 100);
      EXPECT_LT(each.rank, world.size);
      ranks.insert(each.rank);
      collectives.insert(each.collective);
      ++count;
    }
    world.injections.clear();
    EXPECT_EQ(world, world_of(plain[i]));
    EXPECT_EQ(value_of(lagging[i]), value_of(plain[i]));
  }
  EXPECT_GT(ranks.size(), 1u);
  EXPECT_GT(collectives.size(), 5u);
  EXPECT_GT(count, plain.size() / 12);
  EXPECT_LT(count, plain.size() / 3);
}

TEST(DrawnInjections, ACaseWithOneOfItsOwnGetsNoOther) {
  const std::string own = R"([{"kind":"kill","rank":0,"collective":1}])";
  const auto cases =
      drawn(holds_unless_one(),
            {.seed = 7, .lags = true, .late_results = true, .set = {{"world.injections", own}}});
  for (const auto& c : cases) EXPECT_EQ(world_of(c).injections.at(0).kind, InjectionKind::kill);
}

}  // namespace
}  // namespace lockstep
