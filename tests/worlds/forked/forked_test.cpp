#include "harness/rank/journal.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/forked/lane.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"
#include "tests/worlds/forked/toys.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <sys/wait.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing_support::children_of;
using testing_support::descriptors_of;
using testing_support::eventually;
using testing_support::is_gone;

using Kind = Ending::Kind;

INSTANTIATE_TEST_SUITE_P(Tiers, ForkedTest, ::testing::Values("cold", "warm", "sim", "launched"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(ForkedTest, WorldsOfOneToFiveReturnWithWhatTheyRecorded) {
  for (int size = 1; size <= 5; ++size) {
    const auto history = run(toy("return", size));
    ASSERT_EQ(history.size(), size);
    EXPECT_EQ(endings(history), std::vector<Ending>(static_cast<size_t>(size)));
    const auto row = history.row({1, "acting"}, "there");
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(as_integers(row.by_rank[static_cast<size_t>(rank)]), std::vector<int64_t>{rank});
  }
}

TEST_P(ForkedTest, EveryWayToEndIsReported) {
  EXPECT_EQ(ending("throw"), (Ending{Kind::threw, "a toy's own error"}));
  EXPECT_EQ(ending("throw_int"), (Ending{Kind::threw, "something that is no std::exception"}));
  EXPECT_EQ(ending("refuse"), (Ending{Kind::refused, "the toy lacks it"}));
  EXPECT_EQ(ending("exit_3"), (Ending{Kind::exited, "3"}));
  EXPECT_EQ(ending("exit_0"), (Ending{Kind::exited, "0"}));
  EXPECT_EQ(ending("abort"), (Ending{Kind::signalled, "SIGABRT"}));
  EXPECT_EQ(ending("segv"), (Ending{Kind::signalled, "SIGSEGV"}));
  EXPECT_EQ(ending("kill"), (Ending{Kind::signalled, "SIGKILL"}));
  EXPECT_EQ(ending("loop", 200ms), (Ending{Kind::stuck, ""}));
  EXPECT_EQ(ending("overflow").kind, Kind::overflowed);
  EXPECT_EQ(ending("overflow_and_catch").kind, Kind::overflowed);
  EXPECT_EQ(ending("return"), Ending{}) << "and the lane continues";
}

// Only its own word tells that it did not run to the end: its peers do not wait for the deadline.
TEST_P(ForkedTest, ARankThatLeavesWithStatusZeroIsNotAwaited) {
  const auto history = run(toy("exit_0", 2, 1), 10min);
  EXPECT_EQ(endings(history), (std::vector<Ending>{{}, {Kind::exited, "0"}}));
}

TEST_P(ForkedTest, RecordsOfARankBeforeItsDeathAreKept) {
  const auto history = run(toy("kill", 2, 1));
  EXPECT_EQ(history.ranks()[1].ending, (Ending{Kind::signalled, "SIGKILL"}));
  EXPECT_EQ(history.row({1, "acting"}, "there").by_rank.size(), 2u);
  EXPECT_EQ(history.ranks()[0].ending, Ending{}) << "it had returned";
}

TEST_P(ForkedTest, ARankThatIsLeftAloneInACollectiveIsStuckAndItsLastCollectiveIsOnRecord) {
  const auto history = run(toy("allreduce", 3, 1), 3s);
  // In a simulated world nobody has to wait for a deadline to know.
  const std::string why =
      is_sim()
          ? "nobody can run any more; it waits for collective #0, allreduce of 6 float32; ranks "
            "0, 2 have not come"
          : "";
  EXPECT_EQ(endings(history), (std::vector<Ending>{{}, {Kind::stuck, why}, {}}));
  const auto last = history.collectives(1).back();
  EXPECT_EQ(last.op, "allreduce");
  EXPECT_EQ(last.elements, 6);
  EXPECT_FALSE(last.done);
  EXPECT_TRUE(history.collectives(0).empty());
}

TEST_P(ForkedTest, ACollectiveOfAllRanksIsDoneOnAll) {
  for (int size = 1; size <= 5; ++size) {
    const auto history = run(toy("reduce_and_record", size));
    const auto sum = history.row({1, "acting"}, "sum");
    for (int rank = 0; rank < size; ++rank) {
      const double expected = size * (size + 1) / 2.0;
      EXPECT_EQ(as_doubles(sum.by_rank[static_cast<size_t>(rank)]),
                std::vector<double>(3, expected));
      ASSERT_EQ(history.collectives(rank).size(), 1u);
      EXPECT_EQ(history.collectives(rank)[0], (Collective{.op = "allreduce",
                                                          .group = "world",
                                                          .dtype = "float32",
                                                          .sequence = 0,
                                                          .elements = 3,
                                                          .root = -1,
                                                          .done = true}));
    }
  }
}

TEST_P(ForkedTest, GroupsOfSomeRanksAreMadeSeparatelyAndNumberedFromZero) {
  const auto history = run(toy("reduce_in_halves", 4));
  const auto of = [&](const char* name) {
    std::vector<double> values;
    for (const auto& value : history.row({1, "acting"}, name).by_rank)
      values.push_back(as_doubles(value).at(0));
    return values;
  };
  EXPECT_EQ(of("sum"), (std::vector<double>{1, 1, 5, 5}));
  EXPECT_EQ(of("rank in group"), (std::vector<double>{0, 1, 0, 1}));
  EXPECT_EQ(history.collectives(0).at(0).group, "ranks 0,1");
  EXPECT_EQ(history.collectives(3).at(0).group, "ranks 2,3");
}

TEST_P(ForkedTest, ABackwardPassRunsInRanksAndCasesAreDeterministic) {
  const auto first = run(toy("train", 3));
  EXPECT_EQ(endings(first), std::vector<Ending>(3));
  EXPECT_EQ(run(toy("train", 3)), first) << "the same weights are drawn in every case";
}

// See Note [Leaving together]: receivers are through while the root still sends.
TEST_P(ForkedTest, ARankThatIsDoneDoesNotBreakItsPeers) {
  for (int i = 0; i < 60; ++i) {
    const int size = 2 + i % 4;
    ASSERT_EQ(endings(run(toy("broadcast", size))), std::vector<Ending>(static_cast<size_t>(size)));
  }
}

TEST_P(ForkedTest, OutputOutlivesTheRankThatWroteIt) {
  run(toy("print_and_die", 2, 1));
  EXPECT_EQ(kept_output(lane()),
            (std::map<std::string, std::string>{{"rank1.out", "printed\nstreamed\n"},
                                                {"rank1.err", "complained"}}));
  run(toy("return", 2));
  EXPECT_TRUE(kept_output(lane()).empty()) << "output is of the last case";
}

TEST_P(ForkedTest, TheStoreAndTheScratchFolderAreTheWorldsOwnAndStartEmpty) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(endings(run(toy("rendezvous_in_store", 3))), std::vector<Ending>(3));
    const auto files = run(toy("scratch", 3)).row({1, "acting"}, "files");
    EXPECT_EQ(as_integers(files.by_rank[0]),
              std::vector<int64_t>{GetParam() == "launched" ? 1 : 3});
  }
  for (const auto& name : testing_support::entries(std::filesystem::temp_directory_path()))
    for (const pid_t server : children_of(getpid()))
      EXPECT_FALSE(name.starts_with("lockstep-" + std::to_string(server) + "-")) << name;
}

TEST_P(ForkedTest, AProcessThatARankLeavesRunningIsALeak) {
  const auto history = run(toy("fork_and_leave", 2, 1));
  const bool is_known = GetParam() == "warm" || GetParam() == "launched";
  const auto& guilty = history.ranks()[is_known ? 1 : 0];
  std::string left;
  for (const auto& event : guilty.events)
    if (const auto* one = std::get_if<LeftBehind>(&event.what)) left += one->what + "; ";
  const bool is_seen_from_outside = GetParam() == "cold" || GetParam() == "launched";
  EXPECT_NE(left.find(is_seen_from_outside ? "1 process(es) that " : "a process that it started"),
            std::string::npos)
      << left;
}

TEST_P(ForkedTest, MemoryOfALongHistoryIsUsableAgain) {
  const auto overflow = run(toy("overflow", 1));
  EXPECT_GE(overflow.ranks()[0].events.size(), 4u);
  EXPECT_EQ(ending("return"), Ending{});
}

TEST_P(ForkedTest, TwoLanesRunAtOnce) {
  lane(2);
  std::vector<History> seen(2);
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) seen[1] = run_on(*lanes_[1], toy("reduce_and_record", 2), 60s);
  });
  for (int i = 0; i < 10; ++i) seen[0] = run_on(*lanes_[0], toy("reduce_and_record", 3), 60s);
  other.join();
  EXPECT_EQ(endings(seen[0]), std::vector<Ending>(3));
  EXPECT_EQ(endings(seen[1]), std::vector<Ending>(2));
}

TEST_P(ForkedTest, StopEndsTheRunningCase) {
  Tier& tier = lane();
  const pid_t server = children_of(getpid()).at(0);
  std::thread stopper([&] {
    eventually([&] { return !children_of(server).empty(); });
    tier.stop();
  });
  EXPECT_THROW(run(toy("loop", 2)), Interrupted);
  stopper.join();
  EXPECT_TRUE(children_of(server).empty());
  EXPECT_THROW(run(toy("return", 1)), Interrupted);
}

// Lanes with one server; tests/worlds/launched checks launched worlds instead.
class ForkedLaneTest : public ForkedTest {};

INSTANTIATE_TEST_SUITE_P(Tiers, ForkedLaneTest, ::testing::Values("cold", "warm", "sim"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(ForkedLaneTest, ACaseThatATierCannotRunIsATierError) {
  const auto text = [&](const Case& c, const Setting& setting) -> std::string {
    try {
      lane().run(scenario_, c, setting, {60s});
    } catch (const TierError& error) {
      return error.what();
    }
    return "no TierError";
  };
  const Case small{scenario_.name, to_json(toy("return", 1))};
  const auto with = [](const std::string& subject, const std::string& backend) {
    return Setting{subject, GetParam(), backend};
  };
  const std::string backend = setting().backend;
  EXPECT_EQ(text({scenario_.name, to_json(toy("return", 9))}, setting()),
            is_sim() ? "no TierError"
                     : "the " + GetParam() +
                           " tier holds worlds of up to 8 ranks; this case of toy.acts wants 9");
  EXPECT_EQ(text(small, with("bar", backend)),
            "no subject 'bar' (did you mean 'bare'?); there are: bare");
  EXPECT_EQ(text({"toy.act", small.value}, setting()),
            "this lane knows no scenario 'toy.act' (did you mean 'toy.acts'?)");
  const std::string known = is_sim() ? "memory" : "gloo, accelerator";
  EXPECT_EQ(text(small, with("bare", "nccl")),
            "the " + GetParam() + " tier runs on " + known + ", not on 'nccl'");
  EXPECT_EQ(text(small, setting()), "no TierError");
}

TEST_P(ForkedLaneTest, ADeadServerIsATierError) {
  run(toy("return", 1));
  const pid_t server = children_of(getpid()).at(0);
  kill(server, SIGKILL);
  try {
    run(toy("return", 1));
    FAIL();
  } catch (const TierError& error) {
    EXPECT_EQ(error.what(),
              "the server process (pid " + std::to_string(server) + ") was ended by SIGKILL");
  }
}

TEST_P(ForkedTest, TwoHundredCasesLeaveNoDescriptorOrProcess) {
  run(toy("reduce_and_record", 2));
  const pid_t server = children_of(getpid()).at(0);
  const auto before = descriptors_of(server);
  const auto own = descriptors_of(getpid());
  for (int i = 0; i < 200; ++i) run(toy(i % 10 == 0 ? "kill" : "reduce_and_record", 2));
  EXPECT_EQ(descriptors_of(server), before);
  EXPECT_EQ(descriptors_of(getpid()), own);
  EXPECT_EQ(children_of(server).size(), GetParam() == "warm" ? 2u : is_sim() ? 1u : 0u);
}

TEST_P(ForkedLaneTest, AKilledRunnerTakesItsServersAndRanksAlong) {
  const SharedMemory board(4096);
  auto& told = *reinterpret_cast<std::atomic<int>*>(board.bytes().data());
  const pid_t runner = fork();
  if (runner == 0) {
    lane(2);
    told = 1;
    run(toy("loop", 2), 600s);
    _exit(0);
  }
  std::vector<pid_t> family;
  ASSERT_TRUE(eventually([&] {
    family = children_of(runner);
    for (const pid_t server : children_of(runner))
      for (const pid_t rank : children_of(server)) family.push_back(rank);
    return told != 0 && family.size() == (is_sim() ? 3u : 4u);
  }));
  kill(runner, SIGKILL);
  waitpid(runner, nullptr, 0);
  for (const pid_t each : family) EXPECT_TRUE(eventually([&] { return is_gone(each); }));
}

TEST(MergedEnding, TheProcessDecidesWhereTheJournalCannot) {
  using End = ChildEnd::Kind;
  const Ending none{Kind::cut_off, "no ending was recorded"};
  const Ending returned{};
  EXPECT_EQ(merged_ending(returned, true, false, {End::signalled, SIGSEGV}),
            (Ending{Kind::signalled, "SIGSEGV"}));
  EXPECT_EQ(merged_ending(returned, true, false, {End::stuck, SIGKILL}), returned)
      << "it waited for its peers";
  EXPECT_EQ(merged_ending(returned, true, false, {End::cut_off, SIGKILL}), returned);
  EXPECT_EQ(merged_ending(none, false, true, {End::exited, 1}).kind, Kind::overflowed);
  EXPECT_EQ(merged_ending(none, false, true, {End::cut_off, SIGKILL}).kind, Kind::overflowed);
  EXPECT_EQ(merged_ending(none, false, false, {End::cut_off, SIGKILL}),
            (Ending{Kind::cut_off, ""}));
  EXPECT_EQ(merged_ending(none, false, false, {End::exited, 0}), (Ending{Kind::exited, "0"}));
}

}  // namespace
}  // namespace lockstep
