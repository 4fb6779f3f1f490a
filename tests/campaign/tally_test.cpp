#include "harness/campaign/tally.h"

#include "harness/cases/draw.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Kind = Verdict::Kind;

Tally tally_of(const std::vector<int64_t>& values) {
  return Tally(toys::job_of(toys::holds_unless_one(), values));
}

Verdict verdict(Kind kind, const std::string& text = "why") {
  return {kind, kind == Kind::pass ? Findings{} : Findings{{"rule", "pattern", "where", text}}};
}

TEST(Tally, AScenarioWithoutCasesFails) {
  const auto tally = tally_of({});
  EXPECT_TRUE(tally.complete());
  EXPECT_EQ(tally.result().kind, Result::Kind::fail);
}

TEST(Tally, AScenarioThatWasLeftOutIsASkipWithItsReason) {
  auto job = toys::job_of(toys::holds_unless_one(), {});
  job.left_out = "no field 'x'";
  const Tally tally(job);
  EXPECT_TRUE(tally.complete());
  EXPECT_EQ(tally.result().kind, Result::Kind::skip);
  EXPECT_EQ(tally.result().refused, (std::map<std::string, int64_t>{{"no field 'x'", 0}}));
}

// The exactness of cases whose `values` are these, the third one refused.
std::string claimed(const std::vector<std::string>& values) {
  auto job = toys::job_of(toys::holds_unless_one(), {1, 2, 3});
  job.scenario.exactness = "bit-equal · real: bounded";
  auto cases = toys::all_of(job.cases);
  for (size_t i = 0; i < values.size(); ++i) cases[i].value["values"] = values[i];
  job.cases = cases;
  Tally tally(job);
  for (const auto kind : {Kind::pass, Kind::pass, Kind::refused})
    tally.record(*tally.next(), verdict(kind));
  return tally.result().exactness;
}

TEST(Tally, NoExactnessIsClaimedOfWhichNoCaseWasJudged) {
  EXPECT_EQ(claimed({"exact", "real", "real"}), "bit-equal · real: bounded");
  EXPECT_EQ(claimed({"exact", "exact", "real"}), "bit-equal");
  EXPECT_EQ(claimed({"real", "real", "exact"}), "bounded");
}

TEST(Tally, OfTheNextFewCasesTheLargestWorldsAreHandedOutFirst) {
  auto job = toys::job_of(toys::holds_unless_one(), std::vector<int64_t>(18, 0));
  auto cases = toys::all_of(job.cases);
  cases[3].value["world"]["size"] = 5;
  cases[9].value["world"]["size"] = 8;
  cases[17].value["world"]["size"] = 4;
  job.cases = cases;
  Tally tally(job);
  std::vector<size_t> order;
  while (const auto index = tally.next()) order.push_back(*index);
  EXPECT_EQ(order,
            (std::vector<size_t>{9, 3, 0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 17, 16}));
}

TEST(Tally, ALowerNumberThatWasNotHandedOutYetStillDecidesTheResult) {
  auto job = toys::job_of(toys::holds_unless_one(), {0, 0, 0});
  auto cases = toys::all_of(job.cases);
  cases[2].value["world"]["size"] = 3;
  job.cases = cases;
  Tally tally(job);
  EXPECT_EQ(*tally.next(), 2u);
  tally.record(2, verdict(Kind::fail));
  EXPECT_FALSE(tally.complete());
  EXPECT_EQ(*tally.next(), 0u);
  tally.record(0, verdict(Kind::fail));
  EXPECT_EQ(tally.next(), std::nullopt);
  EXPECT_TRUE(tally.complete());
  EXPECT_EQ(tally.culprits(), std::vector<size_t>{0});
}

TEST(Tally, AllPassing) {
  auto tally = tally_of({2, 3});
  for (int i = 0; i < 2; ++i) tally.record(*tally.next(), verdict(Kind::pass));
  EXPECT_TRUE(tally.complete());
  EXPECT_EQ(tally.result().kind, Result::Kind::pass);
  EXPECT_EQ(tally.result().judged, 2);
  EXPECT_EQ(tally.result().world_min, 2);
}

TEST(Tally, TheFirstFailureByNumberDecidesWhateverTheOrderInTime) {
  auto tally = tally_of({1, 2, 3, 4, 5});
  for (int i = 0; i < 4; ++i) tally.next();
  tally.record(3, verdict(Kind::crash));
  EXPECT_FALSE(tally.next()) << "no case after a failing one is started";
  EXPECT_TRUE(tally.worth_running(1));
  tally.record(1, verdict(Kind::fail));
  EXPECT_FALSE(tally.worth_running(2));
  tally.dropped(2);
  tally.record(0, verdict(Kind::pass));
  ASSERT_TRUE(tally.complete());
  const auto result = tally.result();
  EXPECT_EQ(result.kind, Result::Kind::fail);
  EXPECT_EQ(result.failure->number, 2);
  EXPECT_EQ(result.failure->of, 5);
  EXPECT_EQ(result.judged, 2) << "the case after the failing one is not counted";
}

TEST(Tally, UnlikeVerdictsOfOneCaseAreFlaky) {
  auto tally = tally_of({1});
  tally.record(*tally.next(), verdict(Kind::fail));
  tally.record_again(0, verdict(Kind::fail));
  EXPECT_FALSE(tally.flaky(0));
  tally.record_again(0, verdict(Kind::pass));
  EXPECT_TRUE(tally.flaky(0));
  EXPECT_EQ(tally.result().kind, Result::Kind::flaky);
  EXPECT_EQ(tally.result().failure->runs, (std::vector{Kind::fail, Kind::fail, Kind::pass}));
}

TEST(Tally, EveryCaseRefusedIsASkipWithItsReason) {
  auto tally = tally_of({1, 2});
  for (int i = 0; i < 2; ++i) tally.record(*tally.next(), verdict(Kind::refused, "no GPU"));
  EXPECT_EQ(tally.result().kind, Result::Kind::skip);
  EXPECT_EQ(tally.result().refused, (std::map<std::string, int64_t>{{"no GPU", 2}}));
}

TEST(Tally, SomeCasesRefusedAreCountedBesideThePass) {
  auto tally = tally_of({1, 2});
  tally.record(*tally.next(), verdict(Kind::refused));
  tally.record(*tally.next(), verdict(Kind::pass));
  EXPECT_EQ(tally.result().kind, Result::Kind::pass);
  EXPECT_EQ(tally.result().judged, 1);
  EXPECT_EQ(tally.result().refused.at("why"), 1);
}

TEST(Tally, AFailureWeighsMoreThanAnInconclusiveCaseBeforeIt) {
  auto tally = tally_of({1, 2});
  tally.record(*tally.next(), verdict(Kind::inconclusive));
  EXPECT_EQ(tally.culprits(), std::vector<size_t>{0});
  tally.record(*tally.next(), verdict(Kind::hang));
  EXPECT_EQ(tally.result().kind, Result::Kind::hang);
  EXPECT_EQ(tally.result().failure->number, 2);
}

TEST(Tally, ThreeInconclusiveCasesEndTheScenario) {
  auto tally = tally_of({1, 2, 3, 4, 5});
  for (int i = 0; i < 3; ++i) tally.record(*tally.next(), verdict(Kind::inconclusive));
  EXPECT_TRUE(tally.complete());
  EXPECT_EQ(tally.result().kind, Result::Kind::inconclusive);
}

Verdict with_pattern(Kind kind, const std::string& pattern) {
  return {kind, {{"rule", pattern, "where", "the story of " + pattern}}};
}

TEST(Tally, OneThatKeepsGoingJudgesEveryCaseAndCountsEachSignature) {
  Tally tally(toys::job_of(toys::holds_unless_one(), {0, 1, 2, 3, 4, 5, 6, 7}),
              AfterFailure::keep_going);
  const std::vector<Verdict> verdicts{with_pattern(Kind::inconclusive, "a"),
                                      with_pattern(Kind::fail, "sum"),
                                      verdict(Kind::pass),
                                      with_pattern(Kind::hang, "stuck"),
                                      with_pattern(Kind::inconclusive, "a"),
                                      with_pattern(Kind::fail, "sum"),
                                      with_pattern(Kind::inconclusive, "a"),
                                      with_pattern(Kind::fail, "other")};
  for (size_t i = 0; i < verdicts.size(); ++i) EXPECT_EQ(tally.next(), i);
  for (size_t i = verdicts.size(); i-- > 0;) tally.record(i, verdicts[i]);
  ASSERT_TRUE(tally.complete());
  EXPECT_EQ(tally.culprits(), (std::vector<size_t>{1, 3, 7, 0}));
  const auto result = tally.result();
  EXPECT_EQ(result.judged, 8);
  EXPECT_EQ(result.kind, Result::Kind::fail);
  EXPECT_EQ(result.worst, verdicts[1]);
  EXPECT_EQ(result.failure->number, 2);
  ASSERT_EQ(result.others.size(), 3u);
  EXPECT_EQ(result.others[0].kind, Result::Kind::hang);
  EXPECT_EQ(result.others[1].worst, verdicts[7]);
  EXPECT_EQ(result.others[1].failure.number, 8);
  EXPECT_EQ(result.others[2].kind, Result::Kind::inconclusive);
  EXPECT_EQ(result.signatures, (std::map<std::string, int64_t>{{"fail: rule [sum]", 2},
                                                               {"hang: rule [stuck]", 1},
                                                               {"fail: rule [other]", 1},
                                                               {"inconclusive: rule [a]", 3}}));
}

TEST(Tally, OneThatDoesNotKeepGoingCountsNoSignature) {
  auto tally = tally_of({1, 2});
  tally.record(*tally.next(), verdict(Kind::fail));
  EXPECT_TRUE(tally.result().signatures.empty());
  EXPECT_TRUE(tally.result().others.empty());
}

TEST(Tally, ASignatureThatChangesInAnotherRunIsFlakyAndTheOthersAreNot) {
  Tally tally(toys::job_of(toys::holds_unless_one(), {0, 1}), AfterFailure::keep_going);
  for (const char* pattern : {"one", "other"})
    tally.record(*tally.next(), with_pattern(Kind::fail, pattern));
  tally.record_again(0, with_pattern(Kind::fail, "one"));
  tally.record_again(1, verdict(Kind::pass));
  const auto result = tally.result();
  EXPECT_EQ(result.kind, Result::Kind::fail);
  EXPECT_EQ(result.others.at(0).kind, Result::Kind::flaky);
}

// Draws 40 cases, of which a share above `hard_from` must be hard.
Job job_with_shares(int64_t hard_from) {
  auto scenario = toys::holds_unless_one();
  scenario.draws = 40;
  scenario.required_shares = {{"hard", 0.25}};
  scenario.labels = [hard_from](const Case& c) {
    return static_cast<uint32_t>(toys::value_of(c) >= hard_from);
  };
  scenario.every = [] { return toys::cases_of(toys::holds_unless_one(), {0, 1000}); };
  return {.scenario = scenario, .cases = draw_cases(scenario, {.seed = 3}), .judges_shares = true};
}

Result all_pass(const Job& job, size_t but = 0) {
  Tally tally(job);
  for (size_t i = but; i < job.cases.size(); ++i) tally.record(*tally.next(), verdict(Kind::pass));
  return tally.result();
}

TEST(Tally, ARunWhoseDrawnCasesMissAShareFailsWithoutACase) {
  const auto met = all_pass(job_with_shares(300));
  EXPECT_EQ(met.kind, Result::Kind::pass);
  EXPECT_EQ(met.labels.at("drawn"), 40) << "those that are always tried are none";
  EXPECT_GE(met.labels.at("hard"), 10);
  const auto missed = all_pass(job_with_shares(1000));
  EXPECT_EQ(missed.kind, Result::Kind::fail);
  EXPECT_EQ(missed.worst.findings.at(0).pattern, "label_missed");
  EXPECT_EQ(missed.worst.findings.at(0).diagnosis,
            "hard: 0 of 40 drawn cases (0 %), at least 25 % required");
  EXPECT_FALSE(missed.failure);
  EXPECT_EQ(missed.judged, 42);
}

TEST(Tally, SharesOfCasesThatAUserNarrowedOrThatDidNotAllRunAreNotJudged) {
  auto narrowed = job_with_shares(1000);
  narrowed.judges_shares = false;
  EXPECT_EQ(all_pass(narrowed).kind, Result::Kind::pass);
  EXPECT_TRUE(all_pass(narrowed).required_shares.empty());
  EXPECT_EQ(all_pass(job_with_shares(1000), 1).kind, Result::Kind::pass);
}

TEST(Tally, WhatIsRefusedWasDrawn) {
  const auto job = job_with_shares(300);
  int refused = 0, refusals_most = 1000;
  const auto refusing_hard_ones = [&] {
    Tally tally(job);
    while (const auto index = tally.next()) {
      const bool is_hard = job.cases.is_drawn(*index) && toys::value_of(job.cases[*index]) >= 300;
      const bool refuses = is_hard && refused < refusals_most;
      refused += refuses;
      tally.record(*index, verdict(refuses ? Kind::refused : Kind::pass));
    }
    return tally.result();
  };
  auto result = refusing_hard_ones();
  EXPECT_EQ(result.labels.at("hard"), refused);
  EXPECT_EQ(result.labels.at("drawn"), 40);
  EXPECT_EQ(result.judged, 42 - refused);
  EXPECT_EQ(result.kind, Result::Kind::pass);
  // All but one, so that the few others that were judged have no share of it.
  refusals_most = std::exchange(refused, 0) - 1;
  result = refusing_hard_ones();
  EXPECT_EQ(result.kind, Result::Kind::pass);
  EXPECT_EQ(result.required_shares.size(), 1u);
}

TEST(Tally, AShardDoesNotJudgeShares) {
  auto job = job_with_shares(1000);
  job.shard = {1, 1};
  EXPECT_EQ(all_pass(job).kind, Result::Kind::fail);
  job.shard = {1, 2};
  Tally tally(job);
  while (const auto index = tally.next()) tally.record(*index, verdict(Kind::pass));
  EXPECT_EQ(tally.result().kind, Result::Kind::pass);
  EXPECT_FALSE(tally.result().required_shares.empty()) << "the report of all shards judges them";
}

TEST(Tally, CountsTheSchedulesOfTheCasesThatCount) {
  auto tally = tally_of({1, 2, 3});
  for (int i = 0; i < 3; ++i) tally.next();
  tally.tried_schedules(0, {.count = 6});
  tally.tried_schedules(1, {.count = 20, .complete = false, .decisions = 4});
  tally.tried_schedules(2, {.count = 100});
  tally.record(0, verdict(Kind::pass));
  tally.record(1, verdict(Kind::fail));
  tally.dropped(2);
  EXPECT_EQ(tally.result().schedules,
            (ScheduleCounts{.schedules = 26, .cases = 2, .complete = 1, .decisions_min = 4}));
}

}  // namespace
}  // namespace lockstep
