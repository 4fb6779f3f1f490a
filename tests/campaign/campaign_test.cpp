#include "harness/campaign/campaign.h"

#include "harness/cases/shown_fields.h"
#include "tests/campaign/bench.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using toys::Bench;
using toys::FakeTier;
using toys::Folder;
using toys::holds_unless_one;
using toys::job_of;
using toys::recorded;
using toys::sees_its_value;
using toys::value_of;

TEST(Campaign, PassesWhereEveryCaseHolds) {
  Bench bench;
  const auto run = bench.run({job_of(holds_unless_one(), {2, 3, 4})}, sees_its_value);
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].kind, Result::Kind::pass);
  EXPECT_EQ(run.results[0].judged, 3);
  EXPECT_FALSE(run.interrupted);
}

// Two worlds of two on two slots: the second waits until the first has been run.
TEST(Campaign, TheTimeOfAResultIsThatOfItsRunsAndNotOfWaitingForASlot) {
  struct Waiting : toys::Counter {
    void on_wait() override {
      ++times;
      times.notify_all();
    }
    std::atomic<int> times = 0;
  };
  const Folder folder;
  Archive archive(folder.path());
  Waiting waiting;
  std::atomic<int> seconds = 0;
  const auto history_of = [&](const Case& c, FakeTier&) {
    // By then the other lane has had time to take its case; nothing fails if it had not.
    for (int before = waiting.times; waiting.times < before + 10;)
      waiting.times.wait(waiting.times);
    seconds += 10;
    return recorded(c, 0);
  };
  CampaignOptions options{.slots = 2};
  options.now = [&] {
    return std::chrono::steady_clock::time_point(std::chrono::seconds(seconds));
  };
  lockstep::Run run;
  const std::atomic<bool> interrupted = false;
  auto tiers = toys::lanes(2, history_of);
  Campaign({job_of(holds_unless_one("toys.a"), {2}), job_of(holds_unless_one("toys.b"), {3})}, {},
           options, tiers, archive, waiting)
      .run(interrupted, run);
  ASSERT_EQ(run.results.size(), 2u);
  for (const auto& result : run.results) EXPECT_EQ(result.took, std::chrono::seconds(10));
}

TEST(Campaign, AFailureStopsItsScenarioAndNoOther) {
  Bench bench;
  const auto run = bench.run(
      {job_of(holds_unless_one("toys.a"), {1, 2, 3}), job_of(holds_unless_one("toys.b"), {4, 5})},
      sees_its_value);
  EXPECT_EQ(run.results.at(0).judged, 1);
  EXPECT_EQ(run.results.at(1).judged, 2);
  EXPECT_TRUE(run.not_finished.empty());
}

TEST(Campaign, OnRequestAFailureStopsAll) {
  Bench bench;
  const auto run = bench.run(
      {job_of(holds_unless_one("toys.a"), {1, 2, 3}), job_of(holds_unless_one("toys.b"), {4, 5})},
      sees_its_value, {.after_failure = AfterFailure::stop_all});
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].kind, Result::Kind::fail);
  ASSERT_EQ(run.not_finished.size(), 1u);
  EXPECT_EQ(run.not_finished[0].scenario, "toys.b");
}

// Cases above 500 throw, those that end in 1 see a one, the others hold.
History fails_in_two_ways(const Case& c, FakeTier&) {
  if (value_of(c) > 500) return toys::ended(c, {Ending::Kind::threw, "case " + c.value.dump()});
  return recorded(c, value_of(c) % 10);
}

TEST(Campaign, OneThatKeepsGoingReportsEachSignatureOnceOnAnyNumberOfLanes) {
  // No case comes twice: the output of its ranks is kept under the case.
  const std::vector<int64_t> values{2, 501, 1, 4, 502, 11, 503, 21, 31, 9};
  for (const int lanes : {1, 2, 5, 9}) {
    Bench bench;
    const auto run =
        bench.run({job_of(holds_unless_one(), values)}, fails_in_two_ways,
                  {.slots = 2 * lanes, .after_failure = AfterFailure::keep_going}, lanes);
    const auto& result = run.results.at(0);
    EXPECT_EQ(result.judged, 10) << lanes;
    EXPECT_EQ(result.kind, Result::Kind::crash);
    EXPECT_EQ(result.failure->number, 2);
    ASSERT_EQ(result.others.size(), 1u);
    const auto& other = result.others[0];
    EXPECT_EQ(other.kind, Result::Kind::fail);
    EXPECT_EQ(other.failure.number, 3);
    EXPECT_EQ(other.failure.runs.size(), 3u) << "its first case is run again too";
    EXPECT_EQ(written_out(holds_unless_one(), read_case_file(other.failure.case_file)).c,
              other.failure.c);
    EXPECT_EQ(other.failure.tail, "first line\nlast words");
    EXPECT_EQ(result.signatures, (std::map<std::string, int64_t>{{result.worst.signature(), 3},
                                                                 {other.worst.signature(), 4}}));
  }
}

TEST(Campaign, ResultsDoNotDependOnTheNumberOfLanes) {
  const std::vector<int64_t> values{2, 3, 4, 5, 1, 6, 1, 7, 1};
  for (const int lanes : {1, 2, 5, 9}) {
    Bench bench;
    const auto run = bench.run({job_of(holds_unless_one(), values)}, sees_its_value,
                               {.slots = 2 * lanes}, lanes);
    EXPECT_EQ(run.results.at(0).failure->number, 5) << lanes;
    EXPECT_EQ(run.results.at(0).judged, 5) << lanes;
  }
}

TEST(Campaign, ResultsComeInTheOrderOfThePlan) {
  Bench bench;
  std::vector<Job> jobs;
  for (const char* name : {"toys.a", "toys.b", "toys.c", "toys.d"})
    jobs.push_back(job_of(holds_unless_one(name), {2, 3}));
  bench.run(jobs, sees_its_value, {.slots = 8}, 4);
  EXPECT_EQ(bench.heard.results,
            (std::vector<std::string>{"toys.a", "toys.b", "toys.c", "toys.d"}));
}

TEST(Campaign, ATierThatIsLostEndsTheCampaignAndSaysWhy) {
  Bench bench;
  int runs = 0;
  const auto run = bench.run({job_of(holds_unless_one("toys.first"), {2, 3}),
                              job_of(holds_unless_one("toys.second"), {2, 3, 4}),
                              job_of(holds_unless_one("toys.third"), {2})},
                             [&](const Case& c, FakeTier&) {
                               if (++runs == 3) throw TierLost("rank 1 is gone");
                               return recorded(c, 0);
                             });
  EXPECT_EQ(runs, 3);
  ASSERT_EQ(run.results.size(), 2u);
  EXPECT_EQ(run.results.at(1).kind, Result::Kind::inconclusive);
  EXPECT_EQ(run.results.at(1).worst.findings.at(0).diagnosis, "rank 1 is gone");
  EXPECT_EQ(run.not_finished.at(0).reason, "rank 1 is gone");
  EXPECT_FALSE(run.interrupted);
}

TEST(Campaign, EveryCaseIsWrittenDownBeforeItRuns) {
  Bench bench;
  bench.run({job_of(holds_unless_one(), {2, 3})}, [&](const Case& c, FakeTier&) {
    const auto last = toys::events_of(bench.archive.folder()).back();
    EXPECT_EQ(last["event"], "case");
    EXPECT_EQ(last["case"], c.value);
    return recorded(c, 0);
  });
  EXPECT_EQ(bench.heard.verdicts.size(), 2u);
}

TEST(Campaign, AnInterruptEndsTheRunningCases) {
  Bench bench;
  const auto run =
      bench.run({job_of(holds_unless_one("toys.a"), {2}), job_of(holds_unless_one("toys.b"), {3})},
                [&](const Case& c, FakeTier& tier) {
                  if (value_of(c) == 2) return recorded(c, 0);
                  bench.interrupted = true;
                  tier.block();
                  return History();
                });
  EXPECT_TRUE(run.interrupted);
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].kind, Result::Kind::pass);
  ASSERT_EQ(run.not_finished.size(), 1u);
  EXPECT_EQ(run.not_finished[0].scenario, "toys.b");
}

TEST(Campaign, WhatHadFailedBeforeAnInterruptIsReportedAndSaved) {
  Bench bench;
  int runs = 0;
  const auto run = bench.run({job_of(holds_unless_one(), {1})}, [&](const Case& c, FakeTier& tier) {
    if (++runs == 1) return recorded(c, 1);
    bench.interrupted = true;
    tier.block();
    return History();
  });
  EXPECT_TRUE(run.interrupted);
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].kind, Result::Kind::fail);
  EXPECT_EQ(run.results[0].failure->runs.size(), 1u);
  EXPECT_FALSE(run.results[0].failure->case_file.empty());
}

TEST(Campaign, WhatARankDidWhenInterruptedIsNoVerdict) {
  Bench bench;
  const auto run = bench.run({job_of(holds_unless_one(), {2})}, [&](const Case& c, FakeTier&) {
    bench.interrupted = true;
    return toys::ended(c, {Ending::Kind::signalled, "SIGINT"});
  });
  EXPECT_TRUE(run.results.empty());
  EXPECT_TRUE(bench.heard.verdicts.empty());
}

TEST(Campaign, WhatAListenerThrowsEndsTheRun) {
  struct Full : toys::Counter {
    void on_case(const Turn&) override { throw ArchiveError("the disk is full"); }
  };
  const Folder folder;
  Archive archive(folder.path());
  Full full;
  lockstep::Run run;
  const std::atomic<bool> interrupted = false;
  auto tiers = toys::lanes(3, sees_its_value);
  Campaign campaign({job_of(holds_unless_one(), {2, 3, 4, 5})}, {}, {.slots = 6}, tiers, archive,
                    full);
  EXPECT_THROW(campaign.run(interrupted, run), ArchiveError);
}

// A case that lasts until a listener learns that time passes would never end otherwise.
TEST(Campaign, ListenersAreCalledWhileACaseRuns) {
  struct Waiting : toys::Counter {
    void on_wait() override {
      heard = true;
      heard.notify_all();
    }
    std::atomic<bool> heard = false;
  };
  const Folder folder;
  Archive archive(folder.path());
  Waiting waiting;
  lockstep::Run run;
  const std::atomic<bool> interrupted = false;
  auto tiers = toys::lanes(1, [&](const Case& c, FakeTier&) {
    waiting.heard.wait(false);
    return recorded(c, 0);
  });
  Campaign({job_of(holds_unless_one(), {2})}, {}, {}, tiers, archive, waiting)
      .run(interrupted, run);
  EXPECT_EQ(run.results.at(0).kind, Result::Kind::pass);
}

TEST(Campaign, WhatAListenerThrowsWhileTimePassesEndsTheRun) {
  struct Full : toys::Counter {
    void on_wait() override { throw ArchiveError("the disk is full"); }
  };
  const Folder folder;
  Archive archive(folder.path());
  Full full;
  lockstep::Run run;
  const std::atomic<bool> interrupted = false;
  auto tiers = toys::lanes(1, [](const Case&, FakeTier& tier) -> History {
    tier.block();
    return {};
  });
  Campaign campaign({job_of(holds_unless_one(), {2})}, {}, {}, tiers, archive, full);
  EXPECT_THROW(campaign.run(interrupted, run), ArchiveError);
}

}  // namespace
}  // namespace lockstep
