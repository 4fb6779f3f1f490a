// Checks what launched worlds do that others do not; the common part is tested with the others'.
#include "harness/worlds/launched/launched_tier.h"
#include "tests/worlds/forked/toys.h"

#include <csignal>
#include <sys/wait.h>

namespace lockstep {
namespace {

using testing_support::children_of;
using testing_support::eventually;
using testing_support::is_gone;
using namespace std::chrono_literals;

class LaunchedTest : public ForkedTest {
 protected:
  std::string lost_in(const Toy& toy) {
    try {
      run(toy);
    } catch (const TierLost& error) {
      return error.what();
    }
    return "not lost";
  }
};

INSTANTIATE_TEST_SUITE_P(Tiers, LaunchedTest, ::testing::Values("launched"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(LaunchedTest, ACaseThatWantsMoreRanksThanThereAreIsRefused) {
  const auto c = toy("return", 6);
  const auto history = run(c);
  const auto verdict = judge(scenario_, {scenario_.name, to_json(c)}, history);
  EXPECT_EQ(verdict.kind, Verdict::Kind::refused);
  EXPECT_EQ(verdict.findings.front().diagnosis,
            "a world of 6 wants more than the 5 processes launched");
  EXPECT_TRUE(kept_output(lane(), history).empty());
  EXPECT_EQ(endings(run(toy("return", 5))), std::vector<Ending>(5));
}

TEST_P(LaunchedTest, ACaseThatAServerCannotRunIsATierErrorAndTheNextCaseRuns) {
  const auto text = [&](const Case& c, const Setting& setting) -> std::string {
    try {
      lane().run(scenario_, c, setting, {60s});
    } catch (const TierError& error) {
      return error.what();
    }
    return "no TierError";
  };
  const Case small{scenario_.name, to_json(toy("reduce_and_record", 3))};
  EXPECT_EQ(text(small, {"bare", "cold", "gloo"}),
            "a launched lane runs launched worlds, not 'cold'");
  EXPECT_NE(text(small, {"bar", "launched", "gloo"}).find("no subject 'bar'"), std::string::npos);
  EXPECT_EQ(text(small, setting()), "no TierError");
}

// The tier decides where a case runs, not what it shows.
TEST_P(LaunchedTest, ACaseShowsWhatItShowsInAColdWorld) {
  const auto cold = forked_lanes({}, {scenario_}, Subjects{Subject{.name = "bare"}}, 1);
  for (const char* act : {"reduce_and_record", "train", "reduce_in_halves", "broadcast"}) {
    const auto c = toy(act, 4);
    EXPECT_EQ(run(c), cold.front()->run(scenario_, {scenario_.name, to_json(c)},
                                        {.subject = "bare"}, {60s}))
        << act;
  }
}

TEST_P(LaunchedTest, AMemberWhoseServerDiedIsLostForGoodAndIsNamed) {
  run(toy("return", 3));
  const auto servers = children_of(getpid());
  kill(servers.at(2), SIGKILL);
  const auto why = lost_in(toy("return", 3));
  EXPECT_TRUE(why.starts_with("rank 2 (process ") && why.ends_with(" is gone")) << why;
  EXPECT_EQ(lost_in(toy("return", 1)), why);
}

// Its peers wait for it in vain; they are ended, and not only at their deadline.
TEST_P(LaunchedTest, AServerThatDiesInACaseEndsTheCaseOfAll) {
  lane();
  const auto servers = children_of(getpid());
  std::thread killer([&] {
    eventually([&] { return !children_of(servers.at(1)).empty(); });
    kill(servers.at(1), SIGKILL);
  });
  EXPECT_NE(lost_in(toy("loop", 3)).find("rank 1 (process "), std::string::npos);
  killer.join();
  for (const size_t rank : {size_t{0}, size_t{2}})
    EXPECT_TRUE(children_of(servers.at(rank)).empty());
}

}  // namespace
}  // namespace lockstep
