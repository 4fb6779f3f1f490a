#include "harness/campaign/canary.h"

#include "tests/campaign/bench.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using toys::Bench;
using toys::FakeTier;
using toys::holds_unless_one;
using toys::job_of;
using toys::recorded;
using toys::sees_its_value;

Canary canary_of(int64_t value, const std::string& outcome = "", const Json& smallest = {}) {
  return {"ones", job_of(holds_unless_one("toys.canary"), {value}), outcome, smallest};
}

TEST(Canary, OneThatFailsIsAsItMustBe) {
  Bench bench;
  const auto run =
      bench.run({job_of(holds_unless_one(), {2})}, sees_its_value, {}, 1, {canary_of(1)});
  EXPECT_EQ(run.canary, Run::Canary::failed);
  EXPECT_EQ(run.blind, std::vector<std::string>());
  EXPECT_EQ(run.results.size(), 1u) << "the canary is no result";
}

TEST(Canary, OneThatPassesIsEnoughToSaySoAndIsNamed) {
  Bench bench;
  const auto run = bench.run({}, sees_its_value, {}, 1, {canary_of(2), canary_of(1)});
  EXPECT_EQ(run.canary, Run::Canary::passed);
  EXPECT_EQ(run.blind, std::vector<std::string>{"ones"});
}

TEST(Canary, OneThatCannotBeRunIsInconclusive) {
  Bench bench;
  const auto run = bench.run({}, [](const Case&, FakeTier&) -> History { throw TierError("gone"); },
                             {}, 1, {canary_of(1)});
  EXPECT_EQ(run.canary, Run::Canary::inconclusive);
}

TEST(Canary, MustComeOutAsItSays) {
  Bench bench;
  const auto outcome = [&](const Canary& canary) {
    return bench.run({}, sees_its_value, {}, 1, {canary}).canary;
  };
  EXPECT_EQ(outcome(canary_of(1, "fail one")), Run::Canary::failed);
  EXPECT_EQ(outcome(canary_of(1, "fail two")), Run::Canary::passed);
  EXPECT_EQ(outcome(canary_of(1, "crash one")), Run::Canary::passed);
  EXPECT_EQ(outcome(canary_of(2, "fail one")), Run::Canary::passed);
}

TEST(Canary, MustBeShrunkToTheCaseThatIsKnown) {
  Bench bench;
  const auto outcome = [&](int world) {
    const Json smallest{{"world", {{"size", world}}}, {"value", 1}};
    return bench.run({}, sees_its_value, {}, 1, {canary_of(1, "fail one", smallest)}).canary;
  };
  EXPECT_EQ(outcome(2), Run::Canary::failed);
  EXPECT_EQ(outcome(3), Run::Canary::passed);
}

// The tier records something else at each run, as a program does that reads a clock.
TEST(Canary, OfASimulatedWorldIsRunTwiceWhereItPasses) {
  Bench bench;
  auto canary = canary_of(2, "fail not_repeatable");
  canary.job.setting = {.tier = "sim", .backend = "memory"};
  int64_t runs = 1;
  const auto changes = [&](const Case& c, FakeTier&) { return recorded(c, ++runs); };
  EXPECT_EQ(bench.run({}, changes, {}, 1, {canary}).canary, Run::Canary::failed);
  EXPECT_EQ(bench.run({}, sees_its_value, {}, 1, {canary}).canary, Run::Canary::passed);
}

}  // namespace
}  // namespace lockstep
