#include "harness/world/forked/cold.h"

#include "harness/process/journal.h"
#include "harness/world/rank_context.h"
#include "harness/world/subject.h"
#include "harness/world/tiers.h"
#include "tests/process/support.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <sys/wait.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing_support::children_of;
using testing_support::descriptors_of;
using testing_support::eventually;
using testing_support::is_gone;

// What rank `rank` does; the others return, having recorded "there".
struct Toy {
  WorldSpec world;
  std::string act = "return";
  int rank = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &Toy::world), field("act", &Toy::act),
                      field("rank", &Toy::rank)};
  }
};

void all_reduce(RankContext& here, int64_t elements) {
  std::vector<at::Tensor> tensors{torch::full({elements}, here.rank() + 1.0)};
  here.group()->allreduce(tensors)->wait();
  here.record("sum", tensors[0]);
}

// The first half of the ranks and the second, each in a group of its own.
void all_reduce_in_halves(RankContext& here) {
  const int half = here.size() / 2, first = here.rank() < half ? 0 : half;
  std::vector<int> ranks(static_cast<size_t>(half));
  std::iota(ranks.begin(), ranks.end(), first);
  std::vector<at::Tensor> tensors{torch::full({1}, here.rank())};
  here.group_of(ranks)->allreduce(tensors)->wait();
  here.record("sum", tensors[0]);
  here.record("rank in group", {here.group_of(ranks)->getRank()});
}

void train_a_step(RankContext& here) {
  torch::nn::Linear model(8, 4);
  model->forward(torch::ones({2, 8})).sum().backward();
  std::vector<at::Tensor> gradient{model->weight.grad().div(here.size())};
  here.group()->allreduce(gradient)->wait();
  here.record("gradient", gradient[0]);
}

void act_out(const std::string& act, RankContext& here) {
  if (act == "throw") throw std::runtime_error("a toy's own error");
  if (act == "throw_int") throw 5;
  if (act == "refuse") throw Unsupported("the toy lacks it");
  if (act == "exit_3") std::exit(3);
  if (act == "exit_0") std::exit(0);
  if (act == "abort") std::abort();
  if (act == "segv") raise(SIGSEGV);
  if (act == "kill") raise(SIGKILL);
  if (act == "loop")
    for (std::atomic<int> i = 0;; ++i) {
    }
  if (act == "overflow")
    for (;;) here.record("zeros", torch::zeros({1 << 20}));
  if (act == "overflow_and_catch") try {
      for (;;) here.record("zeros", torch::zeros({1 << 20}));
    } catch (const JournalFull&) {
    }
  if (act == "allreduce") all_reduce(here, 6);
  if (act == "fork_and_leave")
    if (fork() == 0)
      for (;;) pause();
  if (act == "print_and_die") {
    std::printf("printed\n");
    std::cout << "streamed" << std::endl;
    std::fprintf(stderr, "complained");
    raise(SIGKILL);
  }
  if (act == "scratch") {
    std::ofstream(here.scratch() / ("rank" + std::to_string(here.rank()))) << "x";
    here.store()->add("written", 1);
    while (here.store()->add("written", 0) < here.size()) sched_yield();
    here.record("files", std::vector<int64_t>{static_cast<int64_t>(
                             testing_support::entries(here.scratch()).size())});
  }
  if (act == "meet_in_store") {
    here.store()->add("count", 1);
    here.store()->set("from" + std::to_string(here.rank()), "x");
    for (int rank = 0; rank < here.size(); ++rank) here.store()->get("from" + std::to_string(rank));
  }
}

bool everybody_acts(const std::string& act) {
  return act == "refuse" || act == "scratch" || act == "meet_in_store" || act == "train" ||
         act == "broadcast" || act == "reduce_and_record";
}

void play_toy(const Toy& c, RankContext& here) {
  here.enter(1, "acting");
  here.record("there", std::vector<int64_t>{here.rank()});
  if (c.act == "train") return train_a_step(here);
  if (c.act == "reduce_and_record") return all_reduce(here, 3);
  if (c.act == "broadcast") {
    std::vector<at::Tensor> tensors{torch::full({4}, here.rank())};
    here.group()->broadcast(tensors, {})->wait();
    return;
  }
  if (c.act == "reduce_in_halves") return all_reduce_in_halves(here);
  if (c.act == "allreduce") here.group();  // all meet, one goes on
  if (here.rank() == c.rank || everybody_acts(c.act)) act_out(c.act, here);
}

Findings no_findings(const Toy&, const History&) {
  return {};
}

Scenario toy_scenario() {
  return scenario(Spec<Toy>{.name = "toy.acts",
                            .claim = "A toy does what it is told",
                            .cases = rc::gen::just(Toy{}),
                            .program = &play_toy,
                            .checks = {&no_findings}});
}

class ColdTest : public testing_support::LeavesNothing {
 protected:
  void TearDown() override {
    lanes_.clear();
    LeavesNothing::TearDown();
  }
  Tier& lane(int lanes = 1) {
    if (lanes_.empty()) {
      ColdOptions options{.ranks_most = 8, .journal_bytes = size_t{16} << 20};
      options.grace = 5s;
      lanes_ = cold_lanes({scenario_}, Subjects{Subject{.name = "bare"}}, lanes, options);
    }
    return *lanes_.front();
  }
  History play(const Toy& toy, std::chrono::milliseconds limit = 60s) {
    return play_on(lane(), toy, limit);
  }
  History play_on(Tier& tier, const Toy& toy, std::chrono::milliseconds limit) const {
    return tier.play(scenario_, {scenario_.name, to_json(toy)}, {.subject = "bare"}, {limit});
  }
  static Toy toy(const std::string& act, int size, int rank = 0) {
    return {.world = {.size = size}, .act = act, .rank = rank};
  }
  static std::vector<Ending> endings(const History& history) {
    std::vector<Ending> all;
    for (const auto& rank : history.ranks()) all.push_back(rank.ending);
    return all;
  }
  // How the one rank of a world ended.
  Ending ending(const std::string& act, std::chrono::milliseconds limit = 60s) {
    return endings(play(toy(act, 1), limit)).at(0);
  }
  std::map<std::string, std::string> kept_output(Tier& tier) const {
    const auto folder =
        std::filesystem::temp_directory_path() / ("cold_test." + std::to_string(getpid()));
    tier.keep_output(folder / "logs");
    std::map<std::string, std::string> files;
    for (const auto& name : testing_support::entries(folder / "logs")) {
      std::ostringstream text;
      text << std::ifstream(folder / "logs" / name).rdbuf();
      files[name] = text.str();
    }
    std::filesystem::remove_all(folder);
    return files;
  }

  Scenario scenario_ = toy_scenario();
  std::vector<std::unique_ptr<Tier>> lanes_;
};

using Kind = Ending::Kind;

TEST_F(ColdTest, WorldsOfOneToFiveReturnWithWhatTheyRecorded) {
  for (int size = 1; size <= 5; ++size) {
    const auto history = play(toy("return", size));
    ASSERT_EQ(history.size(), size);
    EXPECT_EQ(endings(history), std::vector<Ending>(static_cast<size_t>(size)));
    const auto row = history.row({1, "acting"}, "there");
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(as_integers(row.by_rank[static_cast<size_t>(rank)]), std::vector<int64_t>{rank});
  }
}

TEST_F(ColdTest, EveryWayToEndIsTold) {
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
  EXPECT_EQ(ending("return"), Ending{}) << "and the lane goes on";
}

TEST_F(ColdTest, WhatARankRecordedBeforeItDiedIsThere) {
  const auto history = play(toy("kill", 2, 1));
  EXPECT_EQ(history.ranks()[1].ending, (Ending{Kind::signalled, "SIGKILL"}));
  EXPECT_EQ(history.row({1, "acting"}, "there").by_rank.size(), 2u);
  EXPECT_EQ(history.ranks()[0].ending, Ending{}) << "it had returned";
}

TEST_F(ColdTest, ARankThatIsLeftAloneInACollectiveIsStuckAndItsLastCollectiveIsOnRecord) {
  const auto history = play(toy("allreduce", 3, 1), 3s);
  EXPECT_EQ(endings(history), (std::vector<Ending>{{}, {Kind::stuck, ""}, {}}));
  const auto last = history.collectives(1).back();
  EXPECT_EQ(last.op, "allreduce");
  EXPECT_EQ(last.elements, 6);
  EXPECT_FALSE(last.done);
  EXPECT_TRUE(history.collectives(0).empty());
}

TEST_F(ColdTest, ACollectiveOfAllRanksIsDoneOnAll) {
  for (int size = 1; size <= 5; ++size) {
    const auto history = play(toy("reduce_and_record", size));
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

TEST_F(ColdTest, GroupsOfSomeRanksMeetApartAndAreNumberedFromZero) {
  const auto history = play(toy("reduce_in_halves", 4));
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

TEST_F(ColdTest, ABackwardPassRunsInRanksAndCasesAreDeterministic) {
  const auto first = play(toy("train", 3));
  EXPECT_EQ(endings(first), std::vector<Ending>(3));
  EXPECT_EQ(play(toy("train", 3)), first) << "the same weights are drawn in every case";
}

// See Note [Leaving together]: receivers are through while the root still sends.
TEST_F(ColdTest, ARankThatIsDoneDoesNotBreakItsPeers) {
  for (int i = 0; i < 60; ++i) {
    const int size = 2 + i % 4;
    ASSERT_EQ(endings(play(toy("broadcast", size))),
              std::vector<Ending>(static_cast<size_t>(size)));
  }
}

TEST_F(ColdTest, InjectionsStrikeWhereTheyWerePlanted) {
  Toy planted = toy("reduce_and_record", 2);
  planted.world.injections = {{.kind = "exit", .rank = 1, .collective = 0, .amount = 9}};
  const auto history = play(planted);
  EXPECT_EQ(history.ranks()[1].ending, (Ending{Kind::exited, "9"}));
  EXPECT_EQ(std::get<Injection>(history.ranks()[1].events.back().what).kind, "exit");
  EXPECT_EQ(history.ranks()[0].ending.kind, Kind::threw) << "its peer's connection closed";
  planted.world.injections = {{.kind = "delay", .rank = 0, .at = {1, "acting"}, .amount = 1}};
  EXPECT_EQ(endings(play(planted)), std::vector<Ending>(2));
}

TEST_F(ColdTest, OutputOutlivesTheRankThatWroteIt) {
  play(toy("print_and_die", 2, 1));
  EXPECT_EQ(kept_output(lane()),
            (std::map<std::string, std::string>{{"rank1.out", "printed\nstreamed\n"},
                                                {"rank1.err", "complained"}}));
  play(toy("return", 2));
  EXPECT_TRUE(kept_output(lane()).empty()) << "output is of the last case";
}

TEST_F(ColdTest, TheStoreAndTheScratchFolderAreTheWorldsOwnAndStartEmpty) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(endings(play(toy("meet_in_store", 3))), std::vector<Ending>(3));
    const auto files = play(toy("scratch", 3)).row({1, "acting"}, "files");
    EXPECT_EQ(as_integers(files.by_rank[0]), std::vector<int64_t>{3});
  }
  for (const auto& name : testing_support::entries(std::filesystem::temp_directory_path()))
    EXPECT_NE(name, "lockstep-" + std::to_string(children_of(getpid()).at(0)));
}

TEST_F(ColdTest, AProcessThatARankLeavesRunningIsALeak) {
  const auto history = play(toy("fork_and_leave", 2, 1));
  const auto& event = history.ranks()[0].events.back();
  EXPECT_EQ(std::get<LeftBehind>(event.what).what,
            "1 process(es) that ranks of this world had started still ran when every rank had "
            "gone");
}

TEST_F(ColdTest, MemoryOfALongHistoryIsUsableAgain) {
  const auto overflow = play(toy("overflow", 1));
  EXPECT_GE(overflow.ranks()[0].events.size(), 4u);
  EXPECT_EQ(ending("return"), Ending{});
}

TEST_F(ColdTest, TwoLanesPlayAtOnce) {
  lane(2);
  std::vector<History> seen(2);
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) seen[1] = play_on(*lanes_[1], toy("reduce_and_record", 2), 60s);
  });
  for (int i = 0; i < 10; ++i) seen[0] = play_on(*lanes_[0], toy("reduce_and_record", 3), 60s);
  other.join();
  EXPECT_EQ(endings(seen[0]), std::vector<Ending>(3));
  EXPECT_EQ(endings(seen[1]), std::vector<Ending>(2));
}

TEST_F(ColdTest, StopEndsTheCaseBeingPlayed) {
  Tier& tier = lane();
  const pid_t server = children_of(getpid()).at(0);
  std::thread stopper([&] {
    eventually([&] { return !children_of(server).empty(); });
    tier.stop();
  });
  EXPECT_THROW(play(toy("loop", 2)), Interrupted);
  stopper.join();
  EXPECT_TRUE(children_of(server).empty());
  EXPECT_THROW(play(toy("return", 1)), Interrupted);
}

TEST_F(ColdTest, WhatATierCannotPlayIsATierError) {
  const auto text = [&](const Case& c, const Setting& setting) -> std::string {
    try {
      lane().play(scenario_, c, setting, {60s});
    } catch (const TierError& error) {
      return error.what();
    }
    return "no TierError";
  };
  const Case small{scenario_.name, to_json(toy("return", 1))};
  EXPECT_EQ(text({scenario_.name, to_json(toy("return", 9))}, {.subject = "bare"}),
            "the cold tier holds worlds of up to 8 ranks; this case of toy.acts wants 9");
  EXPECT_EQ(text(small, {.subject = "bar"}),
            "no subject 'bar' (did you mean 'bare'?); there are: bare");
  EXPECT_EQ(text({"toy.act", small.value}, {.subject = "bare"}),
            "this lane knows no scenario 'toy.act' (did you mean 'toy.acts'?)");
  EXPECT_EQ(text(small, {.subject = "bare", .backend = "nccl"}),
            "the cold tier runs on gloo, not on 'nccl'");
  EXPECT_EQ(text(small, {.subject = "bare"}), "no TierError");
}

TEST_F(ColdTest, ADeadServerIsATierError) {
  play(toy("return", 1));
  const pid_t server = children_of(getpid()).at(0);
  kill(server, SIGKILL);
  try {
    play(toy("return", 1));
    FAIL();
  } catch (const TierError& error) {
    EXPECT_EQ(error.what(),
              "the server process (pid " + std::to_string(server) + ") was ended by SIGKILL");
  }
}

TEST_F(ColdTest, TwoHundredCasesLeaveNoDescriptorOrProcess) {
  play(toy("reduce_and_record", 2));
  const pid_t server = children_of(getpid()).at(0);
  const auto before = descriptors_of(server);
  const auto own = descriptors_of(getpid());
  for (int i = 0; i < 200; ++i) play(toy(i % 10 == 0 ? "kill" : "reduce_and_record", 2));
  EXPECT_EQ(descriptors_of(server), before);
  EXPECT_EQ(descriptors_of(getpid()), own);
  EXPECT_TRUE(children_of(server).empty());
}

TEST_F(ColdTest, AKilledRunnerTakesItsServersAndRanksAlong) {
  const SharedMemory board(4096);
  auto& told = *reinterpret_cast<std::atomic<int>*>(board.bytes().data());
  const pid_t runner = fork();
  if (runner == 0) {
    lane(2);
    told = 1;
    play(toy("loop", 2), 600s);
    _exit(0);
  }
  std::vector<pid_t> family;
  ASSERT_TRUE(eventually([&] {
    family = children_of(runner);
    for (const pid_t server : children_of(runner))
      for (const pid_t rank : children_of(server)) family.push_back(rank);
    return told != 0 && family.size() == 4;
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
