// Each invariant passes on a right run and finds the mistake that is planted in it.
#include "harness/invariants/canaries/canaries.h"
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"
#include "harness/invariants/resumed.h"
#include "harness/invariants/symptoms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>

namespace lockstep::recorded {
namespace {

const Invariant& invariant_named(std::string_view name) {
  for (const auto& invariant : invariants())
    if (invariant.name == name) return invariant;
  throw std::logic_error("no such invariant");
}

TEST(Invariants, HoldForARightRun) {
  const auto run = right_run();
  for (const auto& invariant : invariants()) {
    const auto judgement = invariant.judge(run);
    EXPECT_TRUE(judgement.findings.empty())
        << invariant.name << ": " << judgement.findings.front().diagnosis;
    EXPECT_EQ(judgement.why_not.empty(), invariant.name != "gradients.differ_in_no_sync")
        << invariant.name;
  }
}

TEST(Invariants, HoldOrAreNotJudgedForOneRankAlone) {
  auto run = right_run(1);
  for (const auto& invariant : invariants())
    EXPECT_TRUE(invariant.judge(run).findings.empty()) << invariant.name;
}

TEST(Invariants, EachFindsTheMistakeThatIsPlanted) {
  std::set<std::string_view> found;
  for (const auto& mistake : canaries()) {
    auto run = right_run();
    mistake.plant(run);
    auto judgement = invariant_named(mistake.invariant).judge(run);
    judgement.findings += judgement.remarks;
    ASSERT_FALSE(judgement.findings.empty()) << mistake.invariant << " " << mistake.pattern;
    found.insert(mistake.invariant);
    EXPECT_EQ(judgement.findings.front().pattern, mistake.pattern) << mistake.invariant;
    EXPECT_NE(judgement.findings.front().diagnosis, "") << mistake.invariant;
  }
  EXPECT_EQ(found.size(), invariants().size());
}

TEST(Invariants, RemarkThatAModelWasConvertedToSyncBatchNormInPart) {
  for (const int left : {0, 1}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      auto& values = nth<Fact>(rank, 0, "model 0").values;
      values["layers"] = {{"SyncBatchNorm", 2}};
      values["batch_norms"] = left;
    }
    const auto judgement = forwards_run_through_the_wrapper(run);
    EXPECT_TRUE(judgement.findings.empty());
    ASSERT_EQ(judgement.remarks.size(), static_cast<size_t>(left));
    if (left > 0) EXPECT_EQ(judgement.remarks.front().pattern, "converted_in_part");
  }
}

TEST(Invariants, DoNotKnowWhetherAWatchedModelWasUpdatedWithoutAnOptimizer) {
  for (const char* wrapper : {"DistributedDataParallel", "watched"}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      std::erase_if(rank.records, [](const Record& record) {
        const auto* fact = std::get_if<Fact>(&record.what);
        return fact && fact->name.starts_with("optimizer ");
      });
      for (auto& record : rank.records)
        if (auto* fact = std::get_if<Fact>(&record.what); fact && fact->name == "model 0")
          fact->values["wrapper"] = wrapper;
    }
    const auto judgement = invariant_named("run.is_recorded_whole").judge(run);
    ASSERT_EQ(judgement.findings.size(), 1u);
    EXPECT_EQ(judgement.findings.front().pattern, "vacuous");
    EXPECT_EQ(judgement.is_certain, wrapper != std::string("watched"));
  }
}

TEST(Invariants, SeeEachCanaryThroughTheWholeJudgement) {
  EXPECT_EQ(blind_invariants(), std::vector<std::string>());
}

TEST(Invariants, AreOneCaseEach) {
  const auto run = judged(right_run());
  ASSERT_EQ(run.jobs.size(), run.results.size());
  for (const auto& job : run.jobs) EXPECT_EQ(job.cases, 1) << job.scenario;
}

TEST(Invariants, ThatAFileAllowsStandInLinesWithComments) {
  const auto file = std::filesystem::path(testing::TempDir()) / "lockstep-allowances";
  std::ofstream(file) << "# known\n\n  random.streams_differ  # on purpose\ndata.order_changes\n";
  EXPECT_EQ(read_allowances(file),
            (std::vector<std::string>{"random.streams_differ", "data.order_changes"}));
  std::filesystem::remove(file);
}

TEST(Invariants, AreWhatSymptomsNameOrAPage) {
  std::set<std::string_view> names;
  for (const auto& invariant : all_invariants()) names.insert(invariant.name);
  for (const auto& symptom : symptoms())
    EXPECT_TRUE(names.contains(symptom.about) || symptom.about.starts_with("docs/"))
        << symptom.about;
}

TEST(Invariants, NameTheRankThatStandsAlone) {
  auto run = right_run(4);
  nth<Digests>(run.ranks[2], 1, "parameters").values[1] = {8, 1.5};
  const auto finding = parameters_are_the_same(run).findings.front();
  EXPECT_EQ(finding.pattern, "one_rank_stands_alone");
  EXPECT_EQ(finding.where, "step 0, update, w1");
  EXPECT_NE(finding.diagnosis.find("1 of 2 tensors differ, first w1"), std::string::npos);
}

TEST(Invariants, CallARankThatWasCutOffInconclusive) {
  auto run = right_run();
  for (auto& rank : run.ranks) rank.history.ending = {Ending::Kind::cut_off, ""};
  const auto results = judged(run).results;
  EXPECT_EQ(results.front().kind, Result::Kind::inconclusive);
  EXPECT_EQ(results.front().worst.findings.front().pattern, "cut_off");
}

// A program that ran no backward may train in a way that no recorder sees.
TEST(Invariants, CallARunInconclusiveThatWasStoppedBeforeItsFirstUpdateOrCollective) {
  for (const bool was_stopped : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      rank.records = {{{0, "backward"}, Fact{"backward", {{"model", "model 0"}}}}};
      rank.history.events = {};
      if (was_stopped) rank.history.ending = {Ending::Kind::cut_off, ""};
    }
    using enum Result::Kind;
    EXPECT_EQ(judged(run).results[0].kind, was_stopped ? inconclusive : fail);
    EXPECT_EQ(collectives_have_one_order(run).findings.empty(), was_stopped);
  }
}

TEST(Invariants, BlameNoRankForACollectiveWhereAllWereStopped) {
  auto run = right_run();
  for (auto& rank : run.ranks) rank.history.ending = {Ending::Kind::cut_off, ""};
  run.ranks[1].history.events.pop_back();
  const auto judgement = collectives_have_one_order(run);
  ASSERT_FALSE(judgement.findings.empty());
  EXPECT_EQ(judgement.findings.front().pattern, "missing_collective");
  EXPECT_FALSE(judgement.is_certain);
  // One that is a step further left it out.
  run.ranks[1].history.last.step = kSteps;
  EXPECT_TRUE(collectives_have_one_order(run).is_certain);
  run.ranks[0].history.ending = {};
  run.ranks[0].history.ending.kind = Ending::Kind::returned;
  EXPECT_TRUE(collectives_have_one_order(run).findings.empty());
}

TEST(Invariants, LetARankThatDiedExplainTheCollectivesThatItLacks) {
  auto run = right_run();
  run.ranks[1].history.events.pop_back();
  run.ranks[1].history.ending = {Ending::Kind::threw, "no"};
  EXPECT_TRUE(collectives_have_one_order(run).findings.empty());
}

// Rank 0 logs a loss that rank 1 does not, and rank 1 is in its backward. Both give up.
TEST(Invariants, FindThatTwoRanksWaitInCollectivesOfWhichEachIsTheOthersOwn) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    auto& events = rank.history.events;
    const Moment at{kSteps, "backward"};
    Collective loss{.op = "allreduce", .group = "of the program", .elements = 1, .done = true};
    events.push_back({at, loss});
    if (rank.number == 0) {
      loss.sequence = 1;
      loss.done = false;
      events.push_back({at, loss});
    } else {
      events.push_back(
          {at, Collective{.op = "allreduce", .group = "world", .sequence = 2 * kSteps}});
    }
    rank.history.ending = {Ending::Kind::threw, "no answer"};
  }
  const auto findings = collectives_have_one_order(run).findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings.front().pattern, "mismatched_collectives");
  EXPECT_EQ(findings.front().diagnosis.find("rank 0 waited in collective #1 of "), 0u)
      << findings.front().diagnosis;
}

TEST(Invariants, CountNoForwardThatARecorderDidNotSee) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int n = 0; n < kSteps; ++n) nth<Fact>(rank, n, "backward").values["kind"] = "local";
  EXPECT_NE(forwards_run_through_the_wrapper(run).why_not, "");
  EXPECT_EQ(gradients_differ_in_no_sync(run).findings.front().pattern, "same_data");
}

TEST(Invariants, NameTheRankWhoseLossWasFirstNotFinite) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    nth<Digests>(rank, 2, "parameters").values[0].norm = std::numeric_limits<double>::quiet_NaN();
  nth<Fact>(run.ranks[1], 1, "backward").values["loss"] = "nan";
  const auto finding = values_stay_finite(run).findings.at(0);
  EXPECT_TRUE(std::get<Cause>(finding.details.back())
                  .text.starts_with("the loss of rank 1 was NaN or infinite in step 1"));
}

TEST(Invariants, NameTheUpdateAfterWhichTheProgramWroteWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int step : {0, 2}) {  // Before the first one there is none.
    auto run = right_run();
    for (auto& rank : run.ranks)
      rank.records.push_back({{step, "forward"}, digests("parameters", {{9, nan}, {3, 1}})});
    const auto finding = values_stay_finite(run).findings.at(0);
    ASSERT_EQ(finding.details.size(), step == 0 ? 0u : 1u);
    if (step > 0)
      EXPECT_TRUE(std::get<Cause>(finding.details[0])
                      .text.starts_with("no update did it, since step 1, update left finite"));
  }
}

TEST(Invariants, RemarkOnAGatherWithoutAGradientInSeveralSteps) {
  for (const int steps : {1, 2}) {
    auto run = right_run();
    for (int step = 0; step < steps; ++step)
      run.ranks[0].records.push_back(
          {{step, "forward"}, Fact{"call", {{"at", "a.py:1"}, {"cuts", true}}}});
    EXPECT_EQ(collectives_have_one_order(run).remarks.size(), steps == 1 ? 0u : 1u);
  }
}

}  // namespace
}  // namespace lockstep::recorded
