// Worlds whose ranks are killed, stopped, made to exit or to throw, at any moment; runners that are
// killed with them. Afterwards nothing is left, and every world in between is judged right.
//
// LOCKSTEP_TORTURE_WORLDS says how many worlds, 40 by default; LOCKSTEP_TORTURE_SEED which.
#include "harness/base/text.h"
#include "harness/base/values.h"
#include "tests/worlds/forked/toys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing_support::children_of;
using testing_support::descriptors_of;
using testing_support::entries;
using testing_support::eventually;
using testing_support::is_gone;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Numbers of one torture, all from its seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : at_{.seed = seed, .stream = Stream::order} {}
  int below(int most) {
    ++at_.index;
    return static_cast<int>(bits_at(at_) % static_cast<uint64_t>(most));
  }
  template <class T>
  const T& any(const std::vector<T>& of) {
    return of[static_cast<size_t>(below(static_cast<int>(of.size())))];
  }

 private:
  Counter at_;
};

// Scratch folders of processes that are gone. Ports and memory cannot outlive processes: nothing
// that a run shares has a name.
std::vector<std::string> abandoned_files() {
  const std::string prefix = "lockstep-";
  std::vector<std::string> out;
  for (const auto& name : entries(std::filesystem::temp_directory_path()))
    if (const auto pid =
            name.starts_with(prefix) ? parsed_int(name.substr(prefix.size())) : std::nullopt;
        pid && is_gone(static_cast<pid_t>(*pid)))
      out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

// Pages in memory that belong to the process alone.
int64_t private_pages(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  int64_t size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  return resident - shared;
}

class Torture : public ForkedTest {
 protected:
  static Toy tortured(Dice& dice) {
    const int size = 2 + dice.below(4);
    Toy c = toy("four_rounds", size);
    Injection injection{.kind = dice.any<InjectionKind>(
                            {InjectionKind::kill, InjectionKind::stop, InjectionKind::exit,
                             InjectionKind::throw_, InjectionKind::error, InjectionKind::drop}),
                        .rank = dice.below(size),
                        .amount = dice.below(4)};
    if (dice.below(2) == 0)
      injection.collective = dice.below(4);
    else
      injection.at = {dice.below(4), "round"};
    c.world.injections = {injection};
    return c;
  }

  History run_tier(const std::string& tier, const Toy& c, std::chrono::milliseconds limit) {
    return lane().run(scenario_, {scenario_.name, to_json(c)},
                      {"bare", tier, tier == "sim" ? "memory" : "gloo"}, {limit});
  }

  // A world in which nothing happens shows what it always shows.
  void expect_sound(const std::string& tier) {
    const auto history = run_tier(tier, toy("reduce_and_record", 3), 60s);
    ASSERT_EQ(endings(history), std::vector<Ending>(3)) << tier;
    for (const auto& sum : history.row({1, "acting"}, "sum").by_rank)
      ASSERT_EQ(as_doubles(sum), std::vector<double>(3, 6.0)) << tier;
  }

  const uint64_t worlds_ = from_environment("LOCKSTEP_TORTURE_WORLDS", 40);
  const uint64_t seed_ = from_environment("LOCKSTEP_TORTURE_SEED", 1);
};

INSTANTIATE_TEST_SUITE_P(Tiers, Torture, ::testing::Values("any"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(Torture, LeavesNothingAndEveryNextCaseIsJudgedRight) {
  const auto before = abandoned_files();
  Dice dice(seed_);
  for (const char* tier : {"cold", "warm", "sim"}) expect_sound(tier);
  const pid_t server = children_of(getpid()).at(0);
  // Warm worlds and hosts live on: what is counted is what is there when none does.
  expect_sound("cold");
  const auto own = descriptors_of(getpid()), servers = descriptors_of(server);
  int64_t pages = 0;
  for (uint64_t world = 0; world < worlds_; ++world) {
    const auto tier = dice.any<std::string>({"cold", "warm", "sim"});
    const auto c = tortured(dice);
    const auto& injection = c.world.injections[0];
    SCOPED_TRACE(tier + " " + to_json(c).dump());
    const bool hangs =
        injection.kind == InjectionKind::stop || injection.kind == InjectionKind::drop;
    const auto history = run_tier(tier, c, hangs ? 1s : 20s);
    const auto struck = history.ranks()[static_cast<size_t>(injection.rank)];
    ASSERT_NE(judge(scenario_, {scenario_.name, to_json(c)}, history).kind, Verdict::Kind::pass);
    const auto& events = struck.events;
    // A loaded machine may be at the deadline before a rank is at its injection.
    ASSERT_TRUE(hangs || std::any_of(events.begin(), events.end(), [](const Event& event) {
                  return std::holds_alternative<Injection>(event.what);
                }));
    if (HasFatalFailure()) return;
    if (world % 4 == 0) expect_sound(dice.any<std::string>({"cold", "warm", "sim"}));
    if (world == worlds_ / 2) {
      expect_sound("cold");
      pages = private_pages(server);
    }
  }
  expect_sound("cold");
  EXPECT_EQ(descriptors_of(getpid()), own);
  EXPECT_LE(descriptors_of(server), servers);
  EXPECT_TRUE(children_of(server).empty());
  EXPECT_LT(private_pages(server), pages + 2560) << "the server has grown by ten megabytes";
  lanes_.clear();
  EXPECT_EQ(abandoned_files(), before);
}

TEST_P(Torture, ARunnerThatIsKilledLeavesNothing) {
  const auto before = abandoned_files();
  Dice dice(seed_ + 1);
  for (uint64_t round = 0; round < std::max<uint64_t>(2, worlds_ / 40); ++round) {
    const pid_t runner = fork();
    if (runner == 0) {
      for (;;) {
        const auto tier = dice.any<std::string>({"cold", "warm", "sim"});
        const auto c = tortured(dice);
        try {
          run_tier(tier, c, 1s);
        } catch (...) {
          _exit(1);
        }
      }
    }
    std::vector<pid_t> family;
    const int generations = 1 + dice.below(20);
    // As many looks at a family that has ranks; then the end, at whatever moment that is.
    for (int look = 0; look < generations;)
      for (const pid_t server : children_of(runner)) {
        family.push_back(server);
        for (const pid_t rank : children_of(server)) {
          family.push_back(rank);
          ++look;
        }
      }
    kill(runner, SIGKILL);
    waitpid(runner, nullptr, 0);
    for (const pid_t each : family) ASSERT_TRUE(eventually([&] { return is_gone(each); }));
    for (int i = 0; i < 8; ++i) dice.below(2);
  }
  EXPECT_EQ(abandoned_files(), before);
}

}  // namespace
}  // namespace lockstep
