#include "harness/archive/merge.h"

#include "harness/base/values.h"
#include "harness/campaign/tally.h"
#include "harness/cases/groups.h"
#include "reports/run_file.h"
#include "tests/campaign/toys.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Kind = Verdict::Kind;

// A scenario whose case number i + 1 ends as `kinds[i]`.
struct Script {
  std::string scenario;
  std::vector<Kind> kinds;
};

Verdict verdict_of(Kind kind, int number) {
  if (kind == Kind::pass) return {};
  const std::string why = kind == Kind::refused ? (number % 2 == 0 ? "no GPU" : "no reference")
                                                : "case " + std::to_string(number);
  return {kind, {{"rule", "pattern " + std::to_string(number % 4), "where", why}}};
}

Job job_of(const Script& script, const std::optional<RunShard>& shard) {
  auto job = toys::job_of(toys::holds_unless_one(script.scenario), {});
  job.scenario.exactness = "bit-equal · real: bounded";
  job.shard = shard.value_or(RunShard());
  std::vector<Case> cases;
  for (size_t i = 0; i < script.kinds.size(); ++i) {
    toys::Number number{.world = {.size = 2 + static_cast<int>(i % 3)},
                        .value = static_cast<int64_t>(i)};
    cases.push_back({script.scenario, to_json(number)});
    cases.back().value["values"] = i % 4 == 3 ? "real" : "exact";
  }
  job.cases = cases;
  return job;
}

// The result of a campaign with one lane, and no tier behind it.
Result result_of(Job job, const Script& script, AfterFailure after_failure) {
  Tally tally(std::move(job), after_failure);
  while (const auto index = tally.next())
    tally.record(*index, verdict_of(script.kinds[*index], static_cast<int>(*index) + 1));
  auto result = tally.result();
  result.took = std::chrono::milliseconds(10);
  return result;
}

NamedRun run_of(const std::vector<Script>& scripts, const std::optional<RunShard>& shard,
                AfterFailure after_failure = AfterFailure::go_on) {
  Run run{.version = "0.1.0", .libtorch = "2.11.0", .seed = 7, .settings = {{}}, .shard = shard};
  run.kept_going = after_failure == AfterFailure::keep_going;
  run.canary = Run::Canary::failed;
  for (const auto& script : scripts) {
    const auto job = job_of(script, shard);
    run.jobs.push_back(summary_of(job));
    const auto cases = static_cast<int64_t>(job.cases.size());
    if (cases == 0 || !shard || shard->count(cases) > 0)
      run.results.push_back(result_of(job, script, after_failure));
  }
  return {shard ? "shard" + std::to_string(shard->number) : "whole", run};
}

std::vector<NamedRun> shards_of(const std::vector<Script>& scripts, int of,
                                AfterFailure after_failure = AfterFailure::go_on) {
  std::vector<NamedRun> runs;
  for (int number = of; number >= 1; --number)
    runs.push_back(run_of(scripts, RunShard{number, of}, after_failure));
  return runs;
}

// Everything that is reported of a run but its times.
std::string text_of(Run run) {
  run.took = {};
  for (auto& result : run.results) result.took = {};
  return reports::run_json(run).dump(1);
}

std::string refusal(std::vector<NamedRun> runs) {
  try {
    merged(std::move(runs));
  } catch (const MergeError& error) {
    return error.what();
  }
  return "none";
}

// Up to 40 cases, of which most pass in some scripts and few in others.
Script drawn(uint64_t seed) {
  const auto bits = [&](uint64_t index) {
    return bits_at({.seed = seed, .stream = Stream::order, .rank = 0, .step = 0, .index = index});
  };
  constexpr std::array kOthers{Kind::refused, Kind::refused, Kind::fail, Kind::crash, Kind::hang};
  Script script{"toys.drawn" + std::to_string(seed), {}};
  const uint64_t count = bits(0) % 41,
                 others_percent = std::array<uint64_t, 4>{0, 3, 20, 100}[bits(1) % 4];
  const uint64_t kinds = bits(2) % 2 == 0 ? 2 : kOthers.size();  // in half of them nothing fails
  for (uint64_t i = 0; i < count; ++i)
    script.kinds.push_back(
        bits(10 + 2 * i) % 100 < others_percent ? kOthers[bits(11 + 2 * i) % kinds] : Kind::pass);
  if (bits(3) % 4 == 0 && count > 0) script.kinds[bits(4) % count] = Kind::inconclusive;
  return script;
}

TEST(Merge, ShardsFindWhatOneRunFinds) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<Script> scripts{drawn(3 * seed), drawn(3 * seed + 1), drawn(3 * seed + 2)};
    for (const auto after : {AfterFailure::go_on, AfterFailure::keep_going}) {
      const auto whole = text_of(run_of(scripts, {}, after).run);
      for (const int of : {1, 2, 3, 7})
        ASSERT_EQ(text_of(merged(shards_of(scripts, of, after))), whole)
            << "seed " << seed << ", of " << of;
    }
  }
}

TEST(Merge, ARunThatKeptGoingAndOneThatDidNotAreNoCampaign) {
  auto runs = shards_of({{"toys.numbers", {Kind::pass, Kind::pass}}}, 2);
  runs[0].run.kept_going = true;
  EXPECT_EQ(refusal(runs), "shard2 and shard1 are not of one campaign: only shard2 kept going");
}

TEST(Merge, EveryCaseIsOneShardsAlone) {
  for (int of = 1; of <= 9; ++of)
    for (int cases = 0; cases <= 20; ++cases) {
      std::vector<int> times(static_cast<size_t>(cases));
      int64_t count = 0;
      for (int number = 1; number <= of; ++number) {
        for (int c = 1; c <= cases; ++c)
          if (RunShard{number, of}.has(c)) ++times[static_cast<size_t>(c) - 1];
        count += RunShard{number, of}.count(cases);
      }
      EXPECT_EQ(times, std::vector<int>(static_cast<size_t>(cases), 1));
      EXPECT_EQ(count, cases);
    }
}

TEST(Merge, TheFirstFailureByNumberDecidesAndWhatIsBehindItIsNotCounted) {
  Script script{"toys.numbers", std::vector<Kind>(30, Kind::pass)};
  script.kinds[6] = script.kinds[10] = Kind::fail;  // cases 7 and 11
  const auto run = merged(shards_of({script}, 3));
  const auto& result = run.results.at(0);
  EXPECT_EQ(result.failure->number, 7);
  EXPECT_EQ(result.worst.findings.at(0).diagnosis, "case 7");
  EXPECT_EQ(result.judged, 7);
  EXPECT_EQ(result.took, std::chrono::milliseconds(30)) << "times are added up";
}

TEST(Merge, AFailureWinsOverWhatIsInconclusiveBeforeIt) {
  const Script script{"toys.numbers", {Kind::inconclusive, Kind::pass, Kind::fail}};
  const auto run = merged(shards_of({script}, 3));
  EXPECT_EQ(run.results.at(0).kind, Result::Kind::fail);
}

TEST(Merge, MissingShardsAreNamedAndTheirScenariosHaveNoResult) {
  const std::vector<Script> scripts{{"toys.many", std::vector<Kind>(9, Kind::pass)},
                                    {"toys.one", {Kind::pass}}};
  auto runs = shards_of(scripts, 3);
  runs.pop_back();  // the first
  const auto run = merged(runs);
  EXPECT_EQ(run.missing_shards, std::vector{1});
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].judged, 6);
  ASSERT_EQ(run.not_finished.size(), 1u);
  EXPECT_EQ(run.not_finished[0].scenario, "toys.one");
}

TEST(Merge, AResultThatOneShardDidNotFinishIsNotFinishedUnlessItFailed) {
  for (const auto kind : {Kind::pass, Kind::fail}) {
    auto runs = shards_of({{"toys.numbers", {Kind::pass, kind}}}, 2);  // 2/2 comes first
    runs.back().run.results.clear();
    runs.back().run.not_finished = {{"toys.numbers", {}, "the run was interrupted"}};
    runs.back().run.interrupted = true;
    const auto run = merged(runs);
    EXPECT_TRUE(run.interrupted);
    EXPECT_EQ(run.results.size(), kind == Kind::fail ? 1u : 0u);
    EXPECT_EQ(run.not_finished.size(), kind == Kind::fail ? 0u : 1u);
  }
}

TEST(Merge, TheWorstCanaryIsTheRuns) {
  auto runs = shards_of({{"toys.numbers", {Kind::pass, Kind::pass}}}, 2);
  runs[0].run.canary = lockstep::Run::Canary::passed;
  runs[0].run.blind = {"values", "tap"};
  runs[1].run.blind = {"tap"};
  EXPECT_EQ(merged(runs).canary, lockstep::Run::Canary::passed);
  EXPECT_EQ(merged(runs).blind, (std::vector<std::string>{"values", "tap"}));
}

TEST(Merge, DevicesThatWereSharedAnywhereAreReported) {
  auto runs = shards_of({{"toys.numbers", {Kind::pass, Kind::pass, Kind::pass}}}, 3);
  const SharedDevices one{.backend = "nccl", .kind = "GPU (A)"};
  const SharedDevices other{.backend = "nccl", .kind = "GPU (B)"};
  runs[0].run.shared_devices = {one};
  runs[1].run.shared_devices = {one};
  runs[2].run.shared_devices = {other};
  EXPECT_EQ(merged(runs).shared_devices.size(), 2u);
}

TEST(Merge, WhatIsNoOneCampaignIsRefused) {
  const std::vector<Script> scripts{{"toys.numbers", {Kind::pass, Kind::pass}}};
  const auto with = [&](auto change) {
    auto runs = shards_of(scripts, 2);  // named shard2 and shard1
    change(runs[1].run);
    return refusal(runs);
  };
  const std::string both = "shard2 and shard1 are not of one campaign: ";
  EXPECT_EQ(with([](auto& run) { run.seed = 8; }), both + "seed 7 and seed 8");
  EXPECT_EQ(with([](auto& run) { run.version = "9"; }), both + "versions 0.1.0 and 9");
  EXPECT_EQ(with([](auto& run) { run.libtorch = "9"; }), both + "LibTorch 2.11.0 and 9");
  EXPECT_EQ(with([](auto& run) { run.shard.reset(); }),
            both + "one is a shard and the other a whole run");
  const std::string other = "shard1 and shard2 are not of one campaign: ";
  EXPECT_EQ(with([](auto& run) { run.shard->of = 3; }), other + "shards 1/3 and 2/2");
  EXPECT_EQ(with([](auto& run) { run.jobs[0].cases = 5; }),
            other + "toys.numbers (lockstep, cold, gloo) has 5 cases in one and 2 in the other");
  EXPECT_EQ(with([](auto& run) { run.jobs[0].hash = "0"; }),
            other +
                "toys.numbers (lockstep, cold, gloo) has other cases, or another exactness, in the "
                "other");
  EXPECT_EQ(with([](auto& run) { run.jobs.clear(); }),
            other + "only one has toys.numbers (lockstep, cold, gloo)");
  EXPECT_EQ(with([](auto& run) { run.shard->number = 2; }),
            "shard 2/2 comes twice: shard2 and shard1");
  EXPECT_EQ(with([](auto& run) { run.results.clear(); }),
            "shard1: shard 1/2 has no result for toys.numbers (lockstep, cold, gloo), of which it "
            "runs cases");
  EXPECT_EQ(refusal({}), "there is no run to report");
}

TEST(Merge, WholeRunsAreJoinedIfTheyHaveNothingInCommon) {
  const auto one = run_of({{"toys.one", {Kind::pass}}}, {});
  const auto other = run_of({{"toys.other", {Kind::fail}}}, {});
  const auto run = merged({one, other});
  ASSERT_EQ(run.results.size(), 2u);
  EXPECT_EQ(run.results[1].kind, Result::Kind::fail);
  EXPECT_EQ(text_of(merged({one})), text_of(one.run));
  EXPECT_EQ(refusal({one, other, one}),
            "whole and whole both have toys.one (lockstep, cold, gloo); only shards of a campaign "
            "(run --shard) may have the same");
}

}  // namespace
}  // namespace lockstep
