// Checks that the cause of a hang is named right, on every tier: the first words of the verdict, or
// the place where the guilty rank stood.
#include "harness/campaign/evidence.h"
#include "reports/findings/text.h"
#include "tests/worlds/forked/toys.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

class Causes : public ForkedTest {
 protected:
  struct Reported {
    Verdict::Kind kind = Verdict::Kind::pass;
    std::string headline, place;
    int guilty = 0;
  };
  Reported report_of(const Toy& c) {
    const auto history = run(c, 2s);
    const auto verdict = judge(scenario_, {scenario_.name, to_json(c)}, history);
    const auto folder =
        std::filesystem::temp_directory_path() / ("causes_test." + std::to_string(getpid()));
    const auto evidence = keep_evidence(lane(), folder, history);
    std::filesystem::remove_all(folder);
    return {verdict.kind,
            verdict.findings.empty() ? "" : reports::text_of(verdict.findings.front()),
            evidence.stack, rank_to_blame(history)};
  }
  Reported report_of(const std::string& how) { return report_of(toy("part_in_" + how, 3, 1)); }
  Reported report_of_injection(InjectionKind kind) {
    Toy c = toy("part_in_nothing", 3);
    c.world.injections = {{.kind = kind, .rank = 1, .collective = 1, .amount = 3}};
    return report_of(c);
  }
};

INSTANTIATE_TEST_SUITE_P(Tiers, Causes, ::testing::Values("cold", "warm", "sim", "launched"),
                         [](const auto& tier) { return std::string(tier.param); });

TEST_P(Causes, ASkippedCollective) {
  const auto told = report_of("skip");
  EXPECT_EQ(told.kind, Verdict::Kind::hang) << told.headline;
  EXPECT_TRUE(told.headline.starts_with(
      "rank 1 never issued collective #2, allreduce of 2 float32, which ranks 0, 2 issued"))
      << told.headline;
}

// Rank 1 believes that it took part, and continues. The verdict names the collective in which the
// others wait, and the injection.
TEST_P(Causes, ADroppedCollective) {
  const auto told = report_of_injection(InjectionKind::drop);
  EXPECT_EQ(told.kind, Verdict::Kind::hang) << told.headline;
  // The next collective of rank 1 is taken for the one that it dropped.
  EXPECT_TRUE(
      told.headline.starts_with("ranks 0, 2 wait in collective #2, allreduce of 2 float32, "
                                "which rank 1 completed"))
      << told.headline;
  EXPECT_NE(told.headline.find("injected: drop at collective #1"), std::string::npos);
}

TEST_P(Causes, AnExtraCollective) {
  const auto told = report_of("add");
  EXPECT_EQ(told.kind, Verdict::Kind::hang) << told.headline;
  EXPECT_TRUE(told.headline.starts_with(
      "rank 1 issued one more than ranks 0, 2: collective #3, allreduce of 2 float32"))
      << told.headline;
}

TEST_P(Causes, SwappedOrder) {
  const auto told = report_of("swap");
  EXPECT_TRUE(is_failure(told.kind));
  EXPECT_TRUE(
      told.headline.starts_with("collective #1 differs: rank 0 issued allreduce of 2 "
                                "float32, rank 1 broadcast of 2 float32 from rank 0"))
      << told.headline;
}

// Gloo reports success of some of these, and ends a process with others.
TEST_P(Causes, UnequalSizes) {
  const auto told = report_of("resize");
  EXPECT_TRUE(is_failure(told.kind));
  EXPECT_TRUE(
      told.headline.starts_with("collective #1 differs: rank 0 issued allreduce of 2 "
                                "float32, rank 1 allreduce of 5 float32"))
      << told.headline;
}

TEST_P(Causes, AStoppedRank) {
  const auto told = report_of_injection(InjectionKind::stop);
  EXPECT_EQ(told.kind, Verdict::Kind::hang) << told.headline;
  EXPECT_TRUE(told.headline.starts_with("rank 1 was stopped, at step 2, round")) << told.headline;
}

TEST_P(Causes, ADeadRank) {
  const auto told = report_of_injection(InjectionKind::kill);
  EXPECT_EQ(told.kind, Verdict::Kind::crash);
  EXPECT_TRUE(told.headline.starts_with("rank 1 was ended by SIGKILL, at step 2, round"))
      << told.headline;
}

TEST_P(Causes, ACrash) {
  const auto told = report_of("crash");
  EXPECT_EQ(told.kind, Verdict::Kind::crash);
  EXPECT_TRUE(told.headline.starts_with("rank 1 was ended by SIGSEGV, at step 2, round"))
      << told.headline;
  EXPECT_EQ(told.guilty, 1);
  EXPECT_TRUE(told.place.starts_with("lockstep::write_to at acts.cpp:")) << told.place;
  EXPECT_NE(told.place.find("lockstep::part_in at acts.cpp:"), std::string::npos) << told.place;
}

TEST_P(Causes, AnEndlessLoop) {
  const auto told = report_of("loop");
  EXPECT_EQ(told.kind, Verdict::Kind::hang) << told.headline;
  EXPECT_EQ(told.guilty, 1);
  EXPECT_NE(told.place.find("part_in"), std::string::npos) << told.place;
}

TEST_P(Causes, ALockThatIsHeld) {
  const auto told = report_of("lock");
  EXPECT_EQ(told.kind, Verdict::Kind::hang) << told.headline;
  EXPECT_EQ(told.guilty, 1);
  EXPECT_NE(told.place.find("lock"), std::string::npos) << told.place;
  EXPECT_NE(told.place.find("toys.cpp"), std::string::npos) << told.place;
}

TEST_P(Causes, AnExceptionOnOneRank) {
  const auto told = report_of("throw");
  EXPECT_EQ(told.kind, Verdict::Kind::crash);
  EXPECT_TRUE(told.headline.starts_with("rank 1 threw: a toy's own error, at step 2, round"))
      << told.headline;
}

}  // namespace
}  // namespace lockstep
