// Checks the outcome of the runs of one case, in a campaign.
#include "harness/campaign/case_run.h"

#include "harness/cases/draw.h"
#include "harness/cases/shown_fields.h"
#include "tests/campaign/bench.h"

#include <gtest/gtest.h>

#include <fstream>

namespace lockstep {
namespace {

using toys::Bench;
using toys::FakeTier;
using toys::holds_unless_one;
using toys::job_of;
using toys::recorded;
using toys::sees_its_value;
using toys::value_of;

TEST(CaseRun, AFailingCaseRunsThreeTimesAndIsSaved) {
  Bench bench;
  const auto run = bench.run({job_of(holds_unless_one(), {2, 1, 3})}, sees_its_value);
  const auto& result = run.results.at(0);
  EXPECT_EQ(result.kind, Result::Kind::fail);
  EXPECT_EQ(result.failure->number, 2);
  EXPECT_EQ(result.failure->runs.size(), 3u);
  EXPECT_EQ(written_out(holds_unless_one(), read_case_file(result.failure->case_file)).c,
            result.failure->c);
  EXPECT_EQ(result.failure->tail, "first line\nlast words");
  EXPECT_EQ(result.failure->tail_file, result.failure->logs / "rank0.err");
  EXPECT_TRUE(std::filesystem::exists(result.failure->logs / "rank0.err"));
}

TEST(CaseRun, ASimulatedCaseThatIsAnotherOneTheSecondTimeFails) {
  for (const bool repeats : {true, false}) {
    int runs = 0;
    const auto history_of = [&](const Case& c, FakeTier&) {
      return recorded(c, repeats ? 7 : 100 + runs++);
    };
    Bench bench;
    auto job = job_of(holds_unless_one(), {2});
    job.setting = {.tier = "sim", .backend = "memory"};
    const auto run = bench.run({job}, history_of);
    EXPECT_EQ(run.results.at(0).kind, repeats ? Result::Kind::pass : Result::Kind::flaky);
    if (!repeats) {
      EXPECT_EQ(run.results[0].worst.findings.at(0).pattern, "not_repeatable");
    }
  }
}

TEST(CaseRun, ACaseOutsideItsPreconditionIsRefusedWithoutARun) {
  auto scenario = holds_unless_one();
  scenario.unmet_precondition = [](const Case& c) {
    return value_of(c) == 1 ? "the number must not be 1" : "";
  };
  int runs = 0;
  const auto history_of = [&](const Case& c, FakeTier&) {
    ++runs;
    return recorded(c, value_of(c));
  };
  Bench bench;
  const auto run = bench.run({job_of(scenario, {2, 1, 3})}, history_of);
  const auto& result = run.results.at(0);
  EXPECT_EQ(result.kind, Result::Kind::pass);
  EXPECT_EQ(result.judged, 2);
  EXPECT_EQ(result.refused, (std::map<std::string, int64_t>{{"the number must not be 1", 1}}));
  EXPECT_EQ(runs, 2);
  const auto alone = bench.run({job_of(scenario, {1})}, history_of);
  EXPECT_EQ(alone.results.at(0).kind, Result::Kind::skip);
}

TEST(CaseRun, AReplayedCaseIsNotSavedAgain) {
  Bench bench;
  const auto run =
      bench.run({job_of(holds_unless_one(), {1})}, sees_its_value, {.case_file = "given.json"});
  EXPECT_EQ(run.results.at(0).failure->case_file, "given.json");
  EXPECT_FALSE(std::filesystem::exists(bench.folder.path() / "failures"));
}

TEST(CaseRun, TheTailLeavesLibTorchsOwnStacksInTheLog) {
  struct Warned : FakeTier {
    using FakeTier::FakeTier;
    CaseStacks keep_output(const std::filesystem::path& to, const History&) override {
      std::filesystem::create_directories(to);
      std::ofstream out(to / "rank0.err");
      out << "[W] [c10d] recvVector failed: the remote closed\n"
          << "Exception raised from recvBytes at Utils.hpp:678 (most recent call first):\n";
      for (int frame = 0; frame < 20; ++frame)
        out << "frame #" << frame << ": " << std::string(300, 'x') << " (0x5d in libtorch.so)\n";
      return {};
    }
  };
  Bench bench;
  lockstep::Run run;
  std::vector<std::unique_ptr<Tier>> lane;
  lane.push_back(std::make_unique<Warned>(sees_its_value));
  Campaign({job_of(holds_unless_one(), {1})}, {}, {}, lane, bench.archive, bench.heard)
      .run(bench.interrupted, run);
  EXPECT_EQ(run.results.at(0).failure->tail, "[W] [c10d] recvVector failed: the remote closed");
}

TEST(CaseRun, OnlyAnArchivedCaseIsReportedAsOne) {
  const auto scenario = holds_unless_one();
  Bench bench;
  auto job = job_of(scenario, {});
  job.cases = draw_cases(scenario, {.cases = 1}, toys::cases_of(scenario, {1}));
  EXPECT_TRUE(bench.run({job}, sees_its_value).results.at(0).failure->archived);
  EXPECT_FALSE(bench.run({job_of(scenario, {1})}, sees_its_value).results.at(0).failure->archived);
}

TEST(CaseRun, AHangRunsTwice) {
  Bench bench;
  const auto run = bench.run({job_of(holds_unless_one(), {4})}, [](const Case& c, FakeTier&) {
    return toys::ended(c, {Ending::Kind::stuck, ""});
  });
  EXPECT_EQ(run.results.at(0).kind, Result::Kind::hang);
  EXPECT_EQ(run.results.at(0).failure->runs.size(), 2u);
}

TEST(CaseRun, ACaseThatFailsOnceIsFlaky) {
  Bench bench;
  std::atomic<int> runs = 0;
  const auto run = bench.run({job_of(holds_unless_one(), {4})}, [&](const Case& c, FakeTier&) {
    return recorded(c, ++runs == 1 ? 1 : 0);
  });
  EXPECT_EQ(run.results.at(0).kind, Result::Kind::flaky);
}

TEST(CaseRun, ABrokenTierIsInconclusiveAndNotAFailure) {
  Bench bench;
  const auto run = bench.run({job_of(holds_unless_one(), {2, 3})}, [](const Case& c, FakeTier&) {
    if (value_of(c) == 2) throw TierError("the server process is gone");
    return recorded(c, 0);
  });
  EXPECT_EQ(run.results.at(0).kind, Result::Kind::inconclusive);
  EXPECT_EQ(run.results.at(0).worst.findings.at(0).diagnosis, "the server process is gone");
}

}  // namespace
}  // namespace lockstep
