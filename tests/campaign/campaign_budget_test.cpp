// When a campaign ends: by its time, by a number of failures, by no other case; and how often a
// case runs that passes.
#include "harness/cases/draw.h"
#include "tests/campaign/bench.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using toys::Bench;
using toys::FakeTier;
using toys::holds_unless_one;
using toys::job_of;
using toys::recorded;
using toys::sees_its_value;
using toys::value_of;

// A clock that each run moves on by a second.
struct Seconds {
  std::atomic<int> passed = 0;
  FakeTier::HistoryOf run = [this](const Case& c, FakeTier&) {
    ++passed;
    return recorded(c, value_of(c));
  };
  CampaignOptions with(CampaignOptions options) {
    options.now = [this] {
      return std::chrono::steady_clock::time_point(std::chrono::seconds(passed));
    };
    return options;
  }
};

Job growing_job(const std::string& name, DrawOptions options) {
  const auto scenario = holds_unless_one(name);
  GrowingCases growing(scenario, options);
  Job job{scenario, {}, growing.list()};
  job.more = [growing]() mutable { return growing.grow(); };
  return job;
}

std::vector<int64_t> values_of(const std::vector<Case>& cases) {
  std::vector<int64_t> values;
  for (const auto& c : cases) values.push_back(value_of(c));
  return values;
}

TEST(CampaignBudget, WhereATimeIsSetEveryJobGetsItsShareOfIt) {
  Bench bench;
  Seconds seconds;
  const auto run = bench.run({job_of(holds_unless_one("toys.a"), {2, 3, 4, 5}),
                              job_of(holds_unless_one("toys.b"), {2, 3, 4, 5}),
                              job_of(holds_unless_one("toys.c"), {2, 3, 4, 5})},
                             seconds.run, seconds.with({.time = std::chrono::seconds(6)}));
  ASSERT_EQ(run.results.size(), 3u);
  for (const auto& result : run.results) {
    EXPECT_EQ(result.judged, 2) << result.scenario;
    EXPECT_EQ(result.kind, Result::Kind::pass);
  }
}

TEST(CampaignBudget, AJobWithoutACaseInTimeIsNotFinishedAndSaysWhy) {
  Bench bench;
  Seconds seconds;
  const auto run = bench.run(
      {job_of(holds_unless_one("toys.a"), {2, 3}), job_of(holds_unless_one("toys.b"), {2, 3})},
      seconds.run, seconds.with({.time = std::chrono::seconds(1)}));
  EXPECT_EQ(run.results.size(), 1u);
  ASSERT_EQ(run.not_finished.size(), 1u);
  EXPECT_EQ(run.not_finished[0].scenario, "toys.b");
  EXPECT_EQ(run.not_finished[0].reason, "its time was over before a case of it had run");
}

TEST(CampaignBudget, AFailureThatTheTimeCutsShortIsReportedAllTheSame) {
  Bench bench;
  Seconds seconds;
  // The last case, of the largest world, runs first.
  auto cases = toys::cases_of(holds_unless_one(), {2, 3, 1});
  cases[2].value["world"]["size"] = 4;
  const auto run = bench.run({{holds_unless_one(), {}, cases}}, seconds.run,
                             seconds.with({.time = std::chrono::seconds(1)}));
  EXPECT_EQ(run.results.at(0).kind, Result::Kind::fail);
  EXPECT_EQ(run.results.at(0).failure->number, 3);
  EXPECT_EQ(run.results.at(0).failure->runs.size(), 3u) << "it is run again after its time";
}

TEST(CampaignBudget, ACampaignThatDrawsOnBeginsWithTheCasesOfOneThatDoesNot) {
  Seconds seconds;
  Bench plain, longer;
  const auto job = growing_job("toys.numbers", {.seed = 9, .set = {{"world.size", "2"}}});
  plain.run({{job.scenario, {}, job.cases}}, seconds.run);
  const auto run = longer.run({job}, seconds.run,
                              seconds.with({.time = std::chrono::seconds(150), .draws_on = true}));
  const auto first = values_of(plain.heard.cases), all = values_of(longer.heard.cases);
  ASSERT_EQ(all.size(), 150u);
  ASSERT_EQ(first.size(), 20u);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
  EXPECT_EQ(run.results.at(0).judged, 150);
  EXPECT_FALSE(run.interrupted);
}

TEST(CampaignBudget, ThePlanOfACampaignThatDrewOnHoldsAllItsCases) {
  Seconds seconds;
  Bench bench;
  const auto job = growing_job("toys.numbers", {.seed = 9});
  lockstep::Run run{.jobs = {summary_of(job)}};
  auto tiers = toys::lanes(1, seconds.run);
  Campaign({job}, {}, seconds.with({.time = std::chrono::seconds(150), .draws_on = true}), tiers,
           bench.archive, bench.heard)
      .run(bench.interrupted, run);
  EXPECT_GE(run.jobs.at(0).cases, 150);
  EXPECT_EQ(run.results.at(0).judged, 150);
  EXPECT_NE(run.jobs.at(0).hash, summary_of(job).hash);
}

TEST(CampaignBudget, UntilFailureFindsOneBehindTheFirstList) {
  // The value 1 is not among the first cases of this seed.
  const DrawOptions options{.seed = 9};
  for (const int lanes : {1, 3}) {
    Bench bench;
    const auto run = bench.run(
        {growing_job("toys.a", options), job_of(holds_unless_one("toys.b"), {4, 5})},
        sees_its_value, {.after_failure = AfterFailure::stop_all, .draws_on = true}, lanes);
    ASSERT_EQ(run.results.size(), 2u);
    EXPECT_EQ(run.results[0].kind, Result::Kind::fail);
    EXPECT_GT(run.results[0].failure->number, 20);
    EXPECT_EQ(value_of(run.results[0].failure->c), 1);
    EXPECT_EQ(run.results[1].kind, Result::Kind::pass);
    EXPECT_EQ(run.results[1].judged, 2);
  }
}

TEST(CampaignBudget, ACampaignThatHasNoOtherCaseEnds) {
  Bench bench;
  const auto run =
      bench.run({growing_job("toys.a", {.seed = 7, .worlds = {2}, .set = {{"value", "3"}}})},
                sees_its_value, {.time = std::chrono::hours(1), .draws_on = true}, 2);
  EXPECT_EQ(run.results.at(0).judged, 1);
}

TEST(CampaignBudget, ANumberOfFailuresStopsAll) {
  Bench bench;
  const auto run = bench.run(
      {job_of(holds_unless_one("toys.a"), {1}), job_of(holds_unless_one("toys.b"), {2}),
       job_of(holds_unless_one("toys.c"), {1, 1, 1}), job_of(holds_unless_one("toys.d"), {2})},
      sees_its_value, {.after_failure = AfterFailure::stop_all, .failures_most = 2});
  EXPECT_EQ(run.results.size(), 3u);
  ASSERT_EQ(run.not_finished.size(), 1u);
  EXPECT_EQ(run.not_finished[0].scenario, "toys.d");
}

TEST(CampaignBudget, ACaseThatFailsAtItsFourthRunIsFlakyWithAllRunsInOrder) {
  Bench bench;
  int runs = 0;
  const auto run =
      bench.run({job_of(holds_unless_one(), {3})},
                [&](const Case& c, FakeTier&) { return recorded(c, ++runs == 4); }, {.repeat = 9});
  const auto& result = run.results.at(0);
  EXPECT_EQ(result.kind, Result::Kind::flaky);
  using Kind = Verdict::Kind;
  EXPECT_EQ(result.failure->runs,
            (std::vector{Kind::pass, Kind::pass, Kind::pass, Kind::fail, Kind::pass, Kind::pass}));
  EXPECT_EQ(result.judged, 1);
}

TEST(CampaignBudget, ACaseThatPassesRunsAsOftenAsAskedFor) {
  Bench bench;
  const auto run = bench.run({job_of(holds_unless_one(), {3, 4})}, sees_its_value, {.repeat = 5});
  EXPECT_EQ(bench.heard.verdicts.size(), 10u);
  EXPECT_EQ(run.results.at(0).judged, 2);
}

TEST(CampaignBudget, TheSlowestCasesAreKeptTheSlowestFirst) {
  Bench bench;
  std::atomic<int> seconds = 0;
  CampaignOptions options;
  options.now = [&] {
    return std::chrono::steady_clock::time_point(std::chrono::seconds(seconds));
  };
  std::vector<int64_t> values;
  for (int64_t value = 2; value < 20; ++value) values.push_back(value * 7 % 19 + 2);
  const auto run = bench.run(
      {job_of(holds_unless_one(), values)},
      [&](const Case& c, FakeTier&) {
        seconds += static_cast<int>(value_of(c));
        return recorded(c, 0);
      },
      options);
  ASSERT_EQ(run.slowest.size(), kSlowestMost);
  for (size_t i = 0; i < kSlowestMost; ++i) {
    const auto longest = 20 - static_cast<int64_t>(i);
    EXPECT_EQ(run.slowest[i].took, std::chrono::seconds(longest));
    EXPECT_EQ(values[static_cast<size_t>(run.slowest[i].number) - 1], longest);
  }
}

}  // namespace
}  // namespace lockstep
