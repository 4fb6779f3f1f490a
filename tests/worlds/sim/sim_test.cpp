// Simulated worlds as a tier: what they do beyond what every tier does (forked/forked_test.cpp).
#include "tests/worlds/forked/toys.h"

#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <unistd.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Kind = Ending::Kind;

class SimTest : public ForkedTest {
 protected:
  History run_as(const std::string& tier, const Toy& toy) {
    return lane().run(scenario_, {scenario_.name, to_json(toy)},
                      {"bare", tier, tier == "sim" ? "memory" : "gloo"}, {60s});
  }
  Toy scheduled(const std::string& act, int size, const Schedule& schedule) {
    Toy c = toy(act, size);
    c.world.schedule = schedule;
    return c;
  }
};

INSTANTIATE_TEST_SUITE_P(Tiers, SimTest, ::testing::Values("sim"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(SimTest, ACaseShowsWhatItShowsInAColdWorld) {
  for (const char* act :
       {"reduce_and_record", "train", "reduce_in_halves", "look_around", "collectives"})
    for (const int size : {2, 4})
      EXPECT_EQ(run_as("sim", toy(act, size)), run_as("cold", toy(act, size)))
          << act << " in a world of " << size;
}

// Gloo itself says in which order its ring adds.
TEST_P(SimTest, TheRingAddsInTheOrderOfGloos) {
  for (const int size : {2, 3, 4, 5}) {
    Toy c = toy("reduce_reals", size);
    c.world.reduction = ReductionShape::ring;
    EXPECT_EQ(run_as("sim", c).row({1, "acting"}, "sum").by_rank,
              run_as("cold", c).row({1, "acting"}, "sum").by_rank)
        << size;
    c.world.reduction = ReductionShape::flat;
    if (size > 2) {
      EXPECT_NE(run_as("sim", c).row({1, "acting"}, "sum").by_rank,
                run_as("cold", c).row({1, "acting"}, "sum").by_rank)
          << "the numbers do not show an order";
    }
  }
}

TEST_P(SimTest, TheSameScheduleGivesTheSameHistoryAndAnotherOneMayNot) {
  const auto with = [&](uint64_t seed) {
    return hash_of(run(scheduled("race", 4, {.policy = SchedulePolicy::uniform, .seed = seed})));
  };
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto first = with(seed);
    EXPECT_EQ(with(seed), first) << seed;
    seen.insert(first);
  }
  EXPECT_GT(seen.size(), 1u) << "the race is never run otherwise";
}

TEST_P(SimTest, AResultMayArriveWhenTheRankWaitsForItAndNoSooner) {
  const auto sums = [&](const Schedule& schedule, const char* moment) {
    const auto history = run(scheduled("look_before_waiting", 3, schedule));
    std::vector<double> sums;
    for (const auto& value : history.row({1, "acting"}, moment).by_rank)
      sums.push_back(as_doubles(value)[0]);
    return sums;
  };
  using Sums = std::vector<double>;
  EXPECT_EQ(sums({}, "before waiting"), (Sums{6, 6, 6}));
  EXPECT_EQ(sums({.results = ResultTime::at_wait}, "before waiting"), (Sums{1, 2, 3}));
  EXPECT_EQ(sums({.results = ResultTime::at_wait}, "after waiting"), (Sums{6, 6, 6}));
  std::set<Sums> seen;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Schedule drawn{.results = ResultTime::drawn, .seed = seed};
    seen.insert(sums(drawn, "before waiting"));
    EXPECT_EQ(sums(drawn, "after waiting"), (Sums{6, 6, 6}));
  }
  EXPECT_EQ(seen.size(), 8u) << "each rank has it or has it not";
}

TEST_P(SimTest, WhenResultsArriveChangesNothingForAProgramThatWaits) {
  for (const char* act : {"collectives", "reduce_in_halves", "four_rounds", "train"}) {
    const auto at_once = run(scheduled(act, 4, {}));
    for (const auto results : {ResultTime::at_wait, ResultTime::drawn})
      EXPECT_EQ(run(scheduled(act, 4, {.results = results})), at_once)
          << act << " " << word_of(results);
  }
}

// The order in which three ranks came, as each recorded its place.
std::vector<int64_t> order_in(const History& history) {
  std::vector<int64_t> order;
  for (const auto& place : history.row({1, "acting"}, "place").by_rank)
    order.push_back(as_integers(place)[0]);
  return order;
}

TEST_P(SimTest, AnExhaustiveScheduleTriesEveryOrderAndSaysHowMany) {
  std::multiset<std::vector<int64_t>> orders;
  scenario_.checks = [&](const Case&, const History& history) -> Findings {
    orders.insert(order_in(history));
    return {};
  };
  lanes_.clear();
  const auto tried = run(scheduled("race", 3, {.policy = SchedulePolicy::exhaustive})).schedules();
  EXPECT_TRUE(tried.complete);
  EXPECT_EQ(tried.count, static_cast<int64_t>(orders.size()));
  EXPECT_EQ(std::set(orders.begin(), orders.end()).size(), 6u);
  EXPECT_EQ(run(toy("race", 3)).schedules().count, 0) << "a case that does not ask for all";
}

// A mistake that shows in one order of six. Its choices alone give that order again.
TEST_P(SimTest, AnExhaustiveScheduleFindsTheOneOrderThatFails) {
  scenario_.checks = [](const Case&, const History& history) -> Findings {
    if (order_in(history) == std::vector<int64_t>{3, 2, 1})
      return {{"Rank 2 must not come before rank 1 before rank 0", "", "", "it did"}};
    return {};
  };
  lanes_.clear();
  const auto history = run(scheduled("race", 3, {.policy = SchedulePolicy::exhaustive}));
  EXPECT_EQ(order_in(history), (std::vector<int64_t>{3, 2, 1}));
  const auto& tried = history.schedules();
  EXPECT_GT(tried.count, 1);
  EXPECT_FALSE(tried.complete) << "it ended with the failure";
  EXPECT_EQ(run(scheduled("race", 3, {.choices = tried.choices})), history);
  EXPECT_NE(run(scheduled("race", 3, {})), history);
}

TEST_P(SimTest, NothingOfOneRankReachesAnother) {
  const auto history = run(scheduled("meddle", 3, {.policy = SchedulePolicy::uniform, .seed = 5}));
  ASSERT_EQ(endings(history), std::vector<Ending>(3));
  const auto kept = history.row({1, "acting"}, "kept").by_rank;
  for (const auto& of_rank : kept)
    EXPECT_EQ(as_integers(of_rank), (std::vector<int64_t>{1, 1, 1, 1}));
  const auto draws = history.row({1, "acting"}, "draws").by_rank;
  EXPECT_EQ(draws[0], draws[1]) << "every rank has a generator of its own, at the same seed";
  EXPECT_EQ(draws[0], draws[2]);
}

// Its threads do, since starting some anew for each case would take a sixth of its time.
TEST_P(SimTest, NothingOfOneCaseReachesTheNext) {
  for (int i = 0; i < 2; ++i) {
    const auto history = run(toy("meddle", 2));
    ASSERT_EQ(endings(history), std::vector<Ending>(2));
    for (const auto& found : history.row({1, "acting"}, "found").by_rank)
      EXPECT_EQ(as_integers(found), (std::vector<int64_t>{1, 1, 0, 1, 1, 1})) << "case " << i;
  }
}

TEST_P(SimTest, AHostThatDiedBetweenTwoCasesIsReplaced) {
  run(toy("return", 2));
  for (const pid_t server : testing_support::children_of(getpid()))
    for (const pid_t host : testing_support::children_of(server)) kill(host, SIGKILL);
  EXPECT_EQ(endings(run(toy("return", 2))), std::vector<Ending>(2));
}

TEST_P(SimTest, DifferentCollectivesAreAnErrorOnEveryRankThatShowsBoth) {
  const auto history = run(toy("part_ways", 3, 2));
  const std::string why =
      "collective #0 differs: rank 0 issued allreduce of 2 float32, rank 2 allreduce of 3 float32";
  EXPECT_EQ(endings(history),
            (std::vector<Ending>{{Kind::threw, why}, {Kind::threw, why}, {Kind::threw, why}}));
}

TEST_P(SimTest, AWaitForARankThatIsGoneEndsWithHowItWent) {
  Toy c = toy("reduce_and_record", 3);
  c.world.injections = {{.kind = InjectionKind::kill, .rank = 2, .collective = 0}};
  const Ending told{Kind::threw, "rank 2 never came to collective #0: signalled (SIGKILL)"};
  EXPECT_EQ(endings(run(c)), (std::vector<Ending>{told, told, {Kind::signalled, "SIGKILL"}}));
  EXPECT_EQ(endings(run(toy("reduce_and_record", 3))), std::vector<Ending>(3));
}

TEST_P(SimTest, AStoppedRankLeavesItsPeersStuckAndNobodyWaitsForADeadline) {
  Toy c = toy("reduce_and_record", 2);
  c.world.injections = {{.kind = InjectionKind::stop, .rank = 1, .at = {1, "acting"}}};
  const auto began = std::chrono::steady_clock::now();
  const auto history = run(c, 10min);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5min);
  EXPECT_EQ(history.ranks()[0].ending.kind, Kind::stuck);
  EXPECT_EQ(history.ranks()[1].ending.kind, Kind::stuck);
}

TEST_P(SimTest, RanksThatWaitForEachOtherAreStuckAtOnce) {
  const auto history = run(toy("deadlock", 2), 10min);
  EXPECT_EQ(endings(history),
            (std::vector<Ending>{{Kind::stuck,
                                  "nobody can run any more; it waits for recv of 1 float32 from "
                                  "rank 1, which nobody has answered"},
                                 {Kind::stuck,
                                  "nobody can run any more; it waits for recv of 1 float32 from "
                                  "rank 0, which nobody has answered"}}));
}

TEST_P(SimTest, ADelayPassesInVirtualTime) {
  Toy c = toy("reduce_and_record", 2);
  c.world.injections = {
      {.kind = InjectionKind::delay, .rank = 0, .at = {1, "acting"}, .amount = 20'000'000}};
  EXPECT_EQ(endings(run(c)), std::vector<Ending>(2)) << "nobody sleeps for five hours";
}

// An all-reduce takes two milliseconds, and what a rank does meanwhile three times 0.4.
TEST_P(SimTest, OverlapIsSeenInVirtualTime) {
  const auto from_first_to_last_collective = [&](const char* act) {
    Toy c = toy(act, 2);
    c.world.timing = {.latency_ns = 1'000'000, .operation_ns = 400'000};
    const auto all = run(c).collectives(0);
    return all.back().times.queued_ns - all.front().times.queued_ns;
  };
  EXPECT_EQ(from_first_to_last_collective("reduce_then_compute"), 2'000'000 + 3 * 400'000);
  EXPECT_EQ(from_first_to_last_collective("reduce_and_compute"), 2'000'000);
}

// An all-reduce is two messages here; a poll lasts at most 50 us.
TEST_P(SimTest, PollingEndsAsTheCollectiveDoes) {
  for (const int64_t latency_ns : {20'250, 30'000, 1'010'500}) {
    Toy c = toy("poll", 2);
    c.world.timing = {.latency_ns = latency_ns};
    for (const auto& of_rank : run(c).row({1, "acting"}, "ns").by_rank)
      EXPECT_EQ(as_integers(of_rank), std::vector<int64_t>{2 * latency_ns});
  }
}

TEST_P(SimTest, AKeyThatARankFindsInTheStoreIsOfItsPast) {
  Toy c = toy("find_in_store", 2);
  c.world.timing = {.operation_ns = 10'000'000};
  const auto times = run(c).row({1, "acting"}, "ns").by_rank;
  EXPECT_GE(as_integers(times.at(1)).front(), as_integers(times.at(0)).front());
}

// The operations on 4 elements: the loss's gradient, spread out, times the input; then the hook,
// and one operation that keeps the gradient. An operation inside another one costs nothing more.
TEST_P(SimTest, ABackwardPassAndItsHooksTakeVirtualTime) {
  Toy c = toy("pass_backward", 1);
  c.world.timing = {.operation_ns = 1000};
  const auto history = run(c);
  const auto times = as_integers(history.row({1, "acting"}, "times").by_rank.front());
  const auto hook = as_integers(history.row({1, "acting"}, "in the hook").by_rank.front());
  EXPECT_EQ(hook.front() - times.at(0), 3'000);
  EXPECT_EQ(times.at(1) - hook.front(), 2'000);
}

TEST_P(SimTest, WorldsAreLarge) {
  const auto history = run(toy("reduce_and_record", 1024));
  const auto sum = history.row({1, "acting"}, "sum").by_rank;
  ASSERT_EQ(sum.size(), 1024u);
  for (const auto& of_rank : sum) EXPECT_EQ(as_doubles(of_rank)[0], 1024 * 1025 / 2);
}

}  // namespace
}  // namespace lockstep
