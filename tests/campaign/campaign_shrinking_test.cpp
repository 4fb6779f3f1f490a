// Checks what shrinking adds to a campaign: the smallest case in the result, in its file, on any
// number of lanes.
#include "harness/archive/archived_failures.h"
#include "harness/cases/draw.h"
#include "harness/cases/shown_fields.h"
#include "tests/campaign/bench.h"
#include "tests/campaign/planted.h"

#include <gtest/gtest.h>

#include <fstream>

namespace lockstep {
namespace {

using planted::Bug;
using planted::Planted;
using planted::Symptom;
using toys::Bench;
using toys::FakeTier;

const Setting kSim{.tier = "sim", .backend = "memory"};

CampaignOptions shrinking(int slots = 2) {
  return {.slots = slots, .shrink = ShrinkOptions{.time = std::chrono::minutes(10)}};
}

Job job_of(const std::vector<Case>& cases, Setting setting = kSim) {
  return {planted::scenario_of_planted(), std::move(setting), cases};
}

Case large(const Bug& bug) {
  auto c = planted::large_case();
  bug.plant(c);
  return planted::erased(c);
}

FakeTier::HistoryOf runs(const Bug& bug) {
  return [&bug](const Case& c, FakeTier&) { return planted::run(bug, c); };
}

SavedCase saved_in(const std::filesystem::path& file) {
  return written_out(planted::scenario_of_planted(), read_case_file(file));
}

auto files_in(const std::filesystem::path& folder) {
  std::error_code none;
  return std::distance(std::filesystem::directory_iterator(folder, none), {});
}

int trials_of(const Bench& bench) {
  const auto events = toys::events_of(bench.archive.folder());
  return static_cast<int>(std::count_if(
      events.begin(), events.end(), [](const Json& event) { return event["event"] == "trial"; }));
}

TEST(CampaignShrinking, TheResultIsOfTheSmallestCaseWhateverTheSymptom) {
  for (const auto& bug : planted::bugs()) {
    Bench bench, unshrunk;
    const auto run = bench.run({job_of({large(bug)})}, runs(bug), shrinking());
    const auto drawn = unshrunk.run({job_of({large(bug)})}, runs(bug));
    const auto& result = run.results.at(0);
    EXPECT_EQ(result.kind, drawn.results.at(0).kind) << bug.name;
    EXPECT_TRUE(shows_failure(result.worst, drawn.results[0].worst));
    EXPECT_EQ(result.worst.findings.at(0).specificity, Specificity::explanation) << bug.name;
    EXPECT_EQ(result.judged, 1);
    ASSERT_TRUE(result.failure && result.failure->shrunk) << bug.name;
    const auto& [failure, shrunk] = std::tie(*result.failure, *result.failure->shrunk);
    EXPECT_EQ(failure.c, planted::erased(bug.smallest)) << bug.name;
    EXPECT_EQ(shrunk.drawn, large(bug).value);
    EXPECT_EQ(shrunk.end, Shrunk::End::smallest);
    EXPECT_EQ(saved_in(failure.case_file),
              (SavedCase{failure.c, Origin{shrunk.drawn, shrunk.steps, true}}));
    EXPECT_EQ(files_in(bench.folder.path() / "failures"), 1);
    EXPECT_NE(failure.logs.string().find(hash_of(failure.c).substr(0, 6)), std::string::npos);
  }
}

TEST(CampaignShrinking, WhatIsFoundDoesNotDependOnTheNumberOfLanes) {
  for (const size_t number : {0U, 1U, 4U, 7U}) {
    const auto& bug = planted::bugs()[number];
    std::optional<Failure> first;
    for (const int lanes : {1, 2, 5}) {
      Bench bench;
      const auto run = bench.run({job_of({large(bug)})}, runs(bug), shrinking(2 * lanes), lanes);
      const auto& failure = *run.results.at(0).failure;
      if (!first) first = failure;
      EXPECT_EQ(failure.c, first->c) << bug.name << ", lanes " << lanes;
      EXPECT_EQ(failure.shrunk->steps, first->shrunk->steps);
      EXPECT_EQ(failure.shrunk->runs, first->shrunk->runs);
      EXPECT_EQ(failure.shrunk->notes, first->shrunk->notes);
    }
  }
}

TEST(CampaignShrinking, TheSameSeedIsTheSameRun) {
  const auto& bug = planted::bugs()[0];
  const auto scenario = planted::scenario_of_planted();
  std::vector<std::string> seen;
  for (const int lanes : {1, 3}) {
    Bench bench;
    const Job job{scenario, kSim, draw_cases(scenario, {.seed = 5, .cases = 300})};
    const auto run = bench.run({job}, runs(bug), shrinking(2 * lanes), lanes);
    const auto& failure = *run.results.at(0).failure;
    seen.push_back(std::to_string(failure.number) + " of " + std::to_string(failure.of) + ": " +
                   failure.c.value.dump() + failure.shrunk->drawn.dump() +
                   std::to_string(failure.shrunk->runs));
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(CampaignShrinking, OnlyOnRequest) {
  const auto& bug = planted::bugs()[0];
  Bench bench;
  const auto run = bench.run({job_of({large(bug)})}, runs(bug));
  EXPECT_FALSE(run.results.at(0).failure->shrunk);
  EXPECT_EQ(run.results[0].failure->c, large(bug));
  EXPECT_EQ(trials_of(bench), 0);
}

TEST(CampaignShrinking, EachSignatureIsShrunkWhereTheRunKeepsGoing) {
  const auto& hang = planted::bugs()[1];
  const auto& wrong = planted::bugs()[5];
  const auto both = [&](const Case& c, FakeTier&) {
    return planted::run(hang.strikes(planted::typed(c)) ? hang : wrong, c);
  };
  auto other = planted::large_case();
  other.find_unused = false;
  auto options = shrinking();
  options.after_failure = AfterFailure::keep_going;
  Bench bench;
  const auto run = bench.run(
      {job_of({planted::erased(planted::large_case()), planted::erased(other)})}, both, options);
  const auto& result = run.results.at(0);
  EXPECT_EQ(planted::typed(result.failure->c), hang.smallest);
  ASSERT_EQ(result.others.size(), 1u);
  EXPECT_EQ(planted::typed(result.others[0].failure.c), wrong.smallest);
}

// Each case is counted with the signature of the smallest one, which is reported once.
TEST(CampaignShrinking, CasesOfAVaguerPatternCountAsThoseOfTheOneThatExplainsThem) {
  const auto& bug = planted::bugs()[14];
  ASSERT_TRUE(bug.hides);
  auto explained = bug.smallest;
  explained.steps = 9;
  auto options = shrinking();
  options.after_failure = AfterFailure::keep_going;
  Bench bench;
  const auto run =
      bench.run({job_of({large(bug), planted::erased(explained)})}, runs(bug), options);
  const auto& result = run.results.at(0);
  EXPECT_EQ(planted::typed(result.failure->c), bug.smallest);
  EXPECT_TRUE(result.others.empty());
  EXPECT_EQ(result.signatures,
            (std::map<std::string, int64_t>{{"fail: No rank may see a one [one]", 2}}));
  EXPECT_EQ(result.worst.signature(), result.signatures.begin()->first);
}

// At one seed of four the numbers fit an explanation, as a single small number does by chance.
TEST(CampaignShrinking, AnExplanationThatOtherSeedsDoNotShowDisplacesNoSmallerCase) {
  const Bug bug{"a value that differs on one rank",
                Symptom::wrong_number,
                [](const Planted& c) { return c.world.size >= 2 && !c.layers.empty(); },
                {.world = {.size = 2}, .layers = {{}}},
                [](Planted&) {},
                [](const Planted& c) { return c.seed % 4 != 3; }};
  Bench bench;
  const auto run = bench.run({job_of({large(bug)})}, runs(bug), shrinking());
  const auto& result = run.results.at(0);
  EXPECT_EQ(planted::typed(result.failure->c), bug.smallest);
  EXPECT_EQ(result.worst.findings.at(0).pattern, "every_rank_differs");
  EXPECT_EQ(result.failure->shrunk->end, Shrunk::End::smallest);
}

TEST(CampaignShrinking, ASignatureIsShrunkOnceForAllSettings) {
  const auto& bug = planted::bugs()[0];
  Bench one, two;
  one.run({job_of({large(bug)})}, runs(bug), shrinking());
  const auto run = two.run({job_of({large(bug)}), job_of({large(bug)}, {.tier = "cold"})},
                           runs(bug), shrinking());
  EXPECT_EQ(trials_of(two), trials_of(one) + 2) << "one to confirm it, one for its story";
  for (const auto& result : run.results) {
    EXPECT_EQ(planted::typed(result.failure->c), bug.smallest);
    EXPECT_EQ(result.failure->shrunk->tier, "sim");
  }
}

TEST(CampaignShrinking, TheTimeEndsItWithTheSmallestSoFarAndTheNextRunContinues) {
  const auto& bug = planted::bugs()[0];
  Bench bench;
  std::atomic<int> seconds = 0;
  const auto history_of = [&](const Case& c, FakeTier&) {
    ++seconds;
    return planted::run(bug, c);
  };
  auto options = shrinking();
  options.shrink->time = std::chrono::seconds(100);
  options.now = [&] {
    return std::chrono::steady_clock::time_point(std::chrono::seconds(seconds));
  };
  const auto run = bench.run({job_of({large(bug)})}, history_of, options);
  const auto& failure = *run.results.at(0).failure;
  EXPECT_EQ(failure.shrunk->end, Shrunk::End::time);
  EXPECT_LE(failure.shrunk->runs, 101);
  EXPECT_GT(failure.shrunk->steps, 3);
  EXPECT_FALSE(planted::typed(failure.c) == bug.smallest);
  const auto saved = saved_in(failure.case_file);
  EXPECT_EQ(saved, (SavedCase{failure.c, Origin{large(bug).value, failure.shrunk->steps, false}}));

  const auto scenario = planted::scenario_of_planted();
  CaseListBuilder list;
  for (const auto& c : archived_failures(bench.folder.path(), scenario).cases)
    list.keep_archived(c);
  ASSERT_EQ(list.size(), 1u);
  const auto next = bench.run({{scenario, kSim, list.list()}}, runs(bug), shrinking());
  const auto& second = *next.results.at(0).failure;
  EXPECT_EQ(planted::typed(second.c), bug.smallest);
  EXPECT_EQ(second.shrunk->drawn, large(bug).value) << "still as it was drawn at first";
  EXPECT_GT(second.shrunk->steps, failure.shrunk->steps);
  EXPECT_EQ(files_in(bench.folder.path() / "failures"), 1) << "the larger one is gone";
}

TEST(CampaignShrinking, ACaseWrittenByHandStaysBesideTheSmallerOne) {
  const auto& bug = planted::bugs()[0];
  Bench bench;
  const auto file = bench.archive.save_failure(large(bug), case_file({large(bug)}));
  CaseListBuilder list;
  list.keep_archived(large(bug));
  bench.run({{planted::scenario_of_planted(), kSim, list.list()}}, runs(bug), shrinking());
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(files_in(bench.folder.path() / "failures"), 2);
}

TEST(CampaignShrinking, AnInterruptKeepsTheSmallestSoFar) {
  const auto& bug = planted::bugs()[0];
  for (const int lanes : {1, 3}) {
    Bench bench;
    std::atomic<int> count = 0;
    const auto history_of = [&](const Case& c, FakeTier& tier) {
      if (++count == 40) {
        bench.interrupted = true;
        tier.block();
      }
      return planted::run(bug, c);
    };
    const auto run = bench.run({job_of({large(bug)})}, history_of, shrinking(2 * lanes), lanes);
    EXPECT_TRUE(run.interrupted);
    ASSERT_EQ(run.results.size(), 1u) << "its verdict was known";
    const auto& failure = *run.results[0].failure;
    EXPECT_EQ(failure.shrunk->end, Shrunk::End::interrupted);
    // With several lanes the machine decides which of the forty candidates are over.
    EXPECT_GT(failure.shrunk->steps, lanes == 1 ? 3 : 0);
    EXPECT_TRUE(bug.strikes(planted::typed(failure.c)));
    EXPECT_EQ(saved_in(failure.case_file).c, failure.c);
    EXPECT_EQ(files_in(bench.folder.path() / "failures"), 1);
  }
}

TEST(CampaignShrinking, JobsThatWaitToBeShrunkHaveTheirResultsWhenTheRunIsInterrupted) {
  const auto& bug = planted::bugs()[0];
  Bench bench;
  std::atomic<int> count = 0;
  auto first = job_of({large(bug)}), second = job_of({large(bug)});
  second.scenario.name = "toys.planted_too";
  const auto history_of = [&](const Case& c, FakeTier& tier) {
    if (++count == 60) {
      bench.interrupted = true;
      tier.block();
    }
    return planted::run(bug, c);
  };
  const auto run = bench.run({first, second}, history_of, shrinking(), 1);
  EXPECT_TRUE(run.interrupted);
  EXPECT_EQ(run.results.size() + run.not_finished.size(), 2u);
  EXPECT_GE(run.results.size(), 1u);
}

TEST(CampaignShrinking, AReplayedCaseIsShrunkIntoTheArchiveAndItsFileStays) {
  const auto& bug = planted::bugs()[0];
  Bench bench;
  const auto given = bench.folder.path() / "given.json";
  std::ofstream(given) << case_file({large(bug)});
  auto options = shrinking();
  options.case_file = given;
  const auto run = bench.run({job_of({large(bug)})}, runs(bug), options);
  const auto& failure = *run.results.at(0).failure;
  EXPECT_EQ(planted::typed(failure.c), bug.smallest);
  EXPECT_EQ(failure.case_file.parent_path(), bench.folder.path() / "failures");
  EXPECT_TRUE(std::filesystem::exists(given));
  // The smallest one is not saved a second time.
  Bench again;
  options.case_file = failure.case_file;
  options.case_origin = saved_in(failure.case_file).origin;
  const auto same = again.run({job_of({failure.c})}, runs(bug), options);
  EXPECT_EQ(same.results.at(0).failure->case_file, failure.case_file);
  EXPECT_EQ(same.results[0].failure->shrunk->steps, failure.shrunk->steps);
}

}  // namespace
}  // namespace lockstep
