// Checks what a case plants in a rank, and what its peers and the runner see of it, on every tier.
#include "tests/worlds/forked/toys.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Kind = Ending::Kind;

class Injections : public ForkedTest {};

INSTANTIATE_TEST_SUITE_P(Tiers, Injections, ::testing::Values("cold", "warm", "sim", "launched"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(Injections, StrikeWhereTheyWerePlanted) {
  Toy planted = toy("reduce_and_record", 2);
  planted.world.injections = {
      {.kind = InjectionKind::exit, .rank = 1, .collective = 0, .amount = 9}};
  const auto history = run(planted);
  EXPECT_EQ(history.ranks()[1].ending, (Ending{Kind::exited, "9"}));
  EXPECT_EQ(std::get<Injection>(history.ranks()[1].events.back().what).kind, InjectionKind::exit);
  EXPECT_EQ(history.ranks()[0].ending.kind, Kind::threw) << "its peer's connection closed";
  planted.world.injections = {
      {.kind = InjectionKind::delay, .rank = 0, .at = {1, "acting"}, .amount = 1}};
  EXPECT_EQ(endings(run(planted)), std::vector<Ending>(2));
}

TEST_P(Injections, InjectionsIntoACollectiveAreSeenByTheRanksThatTheyConcern) {
  const auto struck = [&](InjectionKind kind, int amount) {
    Toy planted = toy("reduce_and_record", 2);
    planted.world.injections = {{.kind = kind, .rank = 1, .collective = 0, .amount = amount}};
    return run(planted, 3s);
  };
  const auto sum = [](const History& history, size_t rank) {
    for (const auto& event : history.ranks()[rank].events)
      if (const auto* seen = std::get_if<Observation>(&event.what); seen && seen->name == "sum")
        return as_doubles(seen->value);
    return std::vector<double>();
  };
  const std::vector<double> right(3, 3.0);

  auto history = struck(InjectionKind::corrupt, 31);  // the sign of the first element
  EXPECT_EQ(sum(history, 0), right);
  EXPECT_EQ(sum(history, 1), (std::vector<double>{-3, 3, 3}));

  history = struck(InjectionKind::error, 0);
  EXPECT_EQ(
      history.ranks()[1].ending,
      (Ending{Kind::threw, "injected: the backend failed collective #0, allreduce of 3 float32"}));
  EXPECT_EQ(history.ranks()[0].ending.kind, Kind::threw);

  history = struck(InjectionKind::drop, 0);
  EXPECT_EQ(sum(history, 1), std::vector<double>(3, 2.0)) << "what it had sent";
  EXPECT_EQ(history.ranks()[0].ending.kind, Kind::stuck);

  history = struck(InjectionKind::duplicate, 0);
  EXPECT_EQ(sum(history, 0), right);
  EXPECT_EQ(history.ranks()[1].ending.kind, Kind::returned);

  for (const auto kind :
       {InjectionKind::slow, InjectionKind::late}) {  // the latter is for devices, and none is here
    history = struck(kind, 1);
    EXPECT_EQ(endings(history), std::vector<Ending>(2)) << word_of(kind);
    EXPECT_EQ(sum(history, 1), right) << word_of(kind);
  }
  EXPECT_EQ(endings(run(toy("reduce_and_record", 2))), std::vector<Ending>(2));
}

TEST_P(Injections, WhereALateRankStoodIsKept) {
  run(toy("loop", 2, 1), 300ms);
  const auto kept = kept_output(lane());
  ASSERT_TRUE(kept.contains("rank1.stacks"));
  EXPECT_NE(kept.at("rank1.stacks").find("act_out"), std::string::npos) << kept.at("rank1.stacks");
  run(toy("return", 2));
  EXPECT_TRUE(kept_output(lane()).empty());
}

// A stopped rank of a simulated world is known at once, without a deadline.
class StoppedRanks : public ForkedTest {};

INSTANTIATE_TEST_SUITE_P(Tiers, StoppedRanks, ::testing::Values("cold", "warm", "launched"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(StoppedRanks, AreKnownFromTheKernel) {
  Toy planted = toy("reduce_and_record", 2);
  planted.world.injections = {{.kind = InjectionKind::stop, .rank = 1, .collective = 0}};
  run(planted, 500ms);
  const auto kept = kept_output(lane());
  EXPECT_NE(kept.at("rank1.stacks").find("stopped"), std::string::npos) << kept.at("rank1.stacks");
  EXPECT_NE(kept.at("rank0.stacks").find("all_reduce"), std::string::npos)
      << kept.at("rank0.stacks");
}

}  // namespace
}  // namespace lockstep
