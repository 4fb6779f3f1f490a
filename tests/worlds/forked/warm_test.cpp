#include "harness/cases/tier.h"
#include "harness/process/network.h"
#include "harness/worlds/devices/device_backend.h"
#include "tests/worlds/forked/toys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>

namespace lockstep {
namespace {

class WarmTest : public ForkedTest {
 protected:
  std::vector<int64_t> pids(int size) {
    std::vector<int64_t> out;
    for (const auto& value : run(toy("tell_pid", size)).row({1, "acting"}, "pid").by_rank)
      out.push_back(as_integers(value).at(0));
    return out;
  }
  std::vector<std::string> left_behind(const History& history) {
    std::vector<std::string> out;
    for (int rank = 0; rank < history.size(); ++rank)
      for (const auto& event : history.ranks()[static_cast<size_t>(rank)].events)
        if (const auto* left = std::get_if<LeftBehind>(&event.what))
          out.push_back("rank " + std::to_string(rank) + ": " + left->what);
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Tiers, WarmTest, ::testing::Values("warm"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(WarmTest, AWorldIsKeptForTheNextCaseOfItsSize) {
  const auto two = pids(2), three = pids(3);
  EXPECT_EQ(pids(2), two);
  EXPECT_EQ(pids(3), three);
  EXPECT_NE(two.front(), three.front());
}

TEST_P(WarmTest, AWorldThatEndedBadlyIsReplaced) {
  const auto before = pids(2);
  for (const char* act : {"kill", "throw", "exit_0", "segv"}) {
    run(toy(act, 2, 1));
    EXPECT_NE(pids(2), before) << act;
  }
}

TEST_P(WarmTest, StateThatACaseLeavesInAProcessIsALeakAndItsWorldIsReplaced) {
  const std::vector<std::pair<std::string, std::string>> leaks{
      {"leave_a_thread", "rank 1: 1 thread(s) more than before"},
      {"leave_a_descriptor", "rank 1: 1 open descriptor(s) more than before"},
      {"change_the_environment", "rank 1: the environment has gained LOCKSTEP_TOY"},
      {"leave_a_collective", "rank 1: 1 collective still under way"},
      {"fork_and_leave", "rank 1: a process that it started"}};
  for (const auto& [act, what] : leaks) {
    const auto before = pids(2);
    const auto history = run(toy(act, 2, 1));
    const auto left = left_behind(history);
    EXPECT_NE(std::find(left.begin(), left.end(), what), left.end()) << act;
    EXPECT_EQ(judge(scenario_, {scenario_.name, to_json(toy(act, 2, 1))}, history).kind,
              Verdict::Kind::leak)
        << act;
    EXPECT_NE(pids(2), before) << act;
  }
}

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A connection to each port on which process `pid` listens, as anybody could make it.
std::vector<Descriptor> strangers_of(pid_t pid) {
  std::set<std::string> own;
  const auto folder = "/proc/" + std::to_string(pid) + "/fd/";
  for (const auto& name : testing_support::entries(folder)) {
    std::error_code gone;
    own.insert(std::filesystem::read_symlink(folder + name, gone).string());
  }
  std::vector<Descriptor> strangers;
  std::ifstream sockets("/proc/net/tcp");
  std::string line;
  for (std::getline(sockets, line); std::getline(sockets, line);) {
    std::istringstream fields(line);
    const std::vector<std::string> field(std::istream_iterator<std::string>{fields}, {});
    const bool is_listening = field.at(3) == "0A";
    if (!is_listening || !own.contains("socket:[" + field.at(9) + "]")) continue;
    const auto port = std::stoi(field.at(1).substr(field.at(1).find(':') + 1), nullptr, 16);
    strangers.push_back(connect_to("127.0.0.1", port, Clock::now() + 30s));
  }
  return strangers;
}

TEST_P(WarmTest, AConnectionToTheBackendFromOutsideIsNoLeakOfTheCase) {
  const auto before = pids(2);
  const auto pid = static_cast<pid_t>(before.at(1));
  const auto descriptors = testing_support::descriptors_of(pid);
  const auto strangers = strangers_of(pid);
  ASSERT_FALSE(strangers.empty());
  ASSERT_TRUE(testing_support::eventually(
      [&] { return testing_support::descriptors_of(pid) >= descriptors + strangers.size(); }));
  EXPECT_EQ(left_behind(run(toy("reduce_and_record", 2))), std::vector<std::string>{});
  EXPECT_EQ(pids(2), before);
  const auto history = run(toy("leave_a_descriptor", 2, 1));
  EXPECT_EQ(left_behind(history),
            std::vector<std::string>{"rank 1: 1 open descriptor(s) more than before"});
}

// Its team of OpenMP would stay as long as the thread, which LibTorch keeps; so would a number that
// it learnt, and a convolution of a later case would make that team.
TEST_P(WarmTest, TheThreadOfADeviceKeepsNothingOfACaseWithMoreThreads) {
  const Setting on_accelerator{.subject = "bare", .tier = GetParam(), .backend = "accelerator"};
  for (const auto& acts : std::vector<std::vector<std::string>>{
           {"share_a_backward"}, {"share_no_backward", "train_a_convolution"}}) {
    lanes_.clear();
    for (const auto& act : acts) {
      const auto history =
          lane().run(scenario_, {scenario_.name, to_json(toy(act, 2))}, on_accelerator, {60s});
      EXPECT_EQ(endings(history), std::vector<Ending>(2, {Ending::Kind::returned, ""})) << act;
      EXPECT_EQ(left_behind(history), std::vector<std::string>{}) << act;
    }
  }
}

TEST_P(WarmTest, GeneratorGradModeAndDefaultDtypeArePutBackAndAreNoLeak) {
  const auto before = pids(2);
  const auto first = run(toy("look_around", 2));
  EXPECT_TRUE(left_behind(run(toy("change_ambience", 2))).empty());
  EXPECT_EQ(run(toy("look_around", 2)), first);
  EXPECT_EQ(as_integers(first.row({1, "acting"}, "ambience").by_rank[0]),
            (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(pids(2), before);
}

// The tier decides where a case runs, not what it shows.
TEST_P(WarmTest, ACaseShowsWhatItShowsInAColdWorld) {
  for (const char* act : {"reduce_and_record", "train", "reduce_in_halves"}) {
    const auto c = toy(act, 4);
    const auto cold = lane().run(scenario_, {scenario_.name, to_json(c)}, {.subject = "bare"},
                                 {std::chrono::seconds(60)});
    EXPECT_EQ(run(c), cold) << act;
    EXPECT_EQ(run(c), cold) << act << " again";
  }
}

TEST_P(WarmTest, WorldsOfManySizesMakeRoomForEachOther) {
  for (int round = 0; round < 2; ++round)
    for (int size = 1; size <= 8; ++size) EXPECT_EQ(pids(size).size(), static_cast<size_t>(size));
}

// Rank 1 does not get its device.
class Broken final : public DeviceBackend {
 public:
  explicit Broken(std::function<void()> fail) : fail_(std::move(fail)) {}
  SeenDevices seen() const override {
    return {.names = {"toy"}, .kind = "toy", .problem = "", .is_own = true};
  }
  c10::Device take(const DeviceAssignment&, int rank) const override {
    if (rank == 1) fail_();
    return c10::kCPU;
  }
  c10::intrusive_ptr<c10d::Backend> make(const Wanted&) const override { return nullptr; }

 private:
  const std::function<void()> fail_;
};

TEST_P(WarmTest, AWorldThatCannotBeMadeIsATierErrorThatNamesTheRankAndTheReason) {
  const auto why_not = [&](std::function<void()> fail) {
    const KnownBackend toys{
        .name = "toys", .why_not = "", .device = std::make_shared<const Broken>(std::move(fail))};
    lanes_ = forked_lanes({}, {scenario_}, Subjects{Subject{.name = "bare"}}, 1,
                          {.ranks_most = 8, .backends = {toys}});
    const Setting on_toys{.subject = "bare", .tier = "warm", .backend = "toys"};
    try {
      lane().run(scenario_, {scenario_.name, to_json(toy("return", 2))}, on_toys, {60s});
    } catch (const TierError& error) {
      return std::string(error.what());
    }
    return std::string("it was made");
  };
  const std::string not_made = "a warm world of 2 ranks on toys could not be made: rank 1";
  EXPECT_EQ(why_not([] { throw std::runtime_error("no device today\nnor tomorrow"); }),
            not_made + ": no device today | nor tomorrow");
  EXPECT_EQ(why_not([] {
              std::cerr << "first\nlast\n" << std::flush;
              std::raise(SIGKILL);
            }),
            not_made + " was ended by SIGKILL, and wrote: first | last");
  EXPECT_EQ(why_not([] { ::_exit(3); }), not_made + " exited with status 3");
}

}  // namespace
}  // namespace lockstep
