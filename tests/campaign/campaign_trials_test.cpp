// Where a campaign runs the candidates of a failing case, and how often.
#include "tests/campaign/bench.h"
#include "tests/campaign/planted.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using planted::Planted;
using toys::Bench;
using toys::FakeTier;

const Setting kOnSim{.tier = "sim", .backend = "memory"};

CampaignOptions shrinking_trials() {
  return {.slots = 2, .shrink = ShrinkOptions{.time = std::chrono::minutes(10)}};
}

Job job_of(const Planted& c, Setting setting = kOnSim) {
  return {planted::scenario_of_planted(), std::move(setting), std::vector{planted::erased(c)}};
}

// A case behaves by its tier: `strikes` says on which it fails.
struct TierOf : FakeTier {
  using Strikes = bool (*)(const Planted&, const std::string& tier);
  explicit TierOf(Strikes strikes) : strikes(strikes) {}
  History run(const Scenario&, const Case& c, const Setting& setting,
              const CaseRunOptions&) override {
    ++runs[setting.tier];
    return toys::recorded(c, strikes(planted::typed(c), setting.tier) ? 1 : 0);
  }
  Strikes strikes;
  std::map<std::string, int> runs;
};

Failure failure_on_cold(TierOf::Strikes strikes, const Planted& c,
                        std::map<std::string, int>& runs) {
  Bench bench;
  auto options = shrinking_trials();
  options.shrink->cheaper = [](const Setting&) {
    return std::vector<Setting>{kOnSim, {.tier = "warm"}};
  };
  Run run;
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(std::make_unique<TierOf>(strikes));
  Campaign({job_of(c, {.tier = "cold"})}, {}, options, tiers, bench.archive, bench.heard)
      .run(bench.interrupted, run);
  runs = static_cast<TierOf&>(*tiers.front()).runs;
  return *run.results.at(0).failure;
}

TEST(CampaignTrials, CandidatesRunInTheCheapestTierThatShowsTheFailure) {
  std::map<std::string, int> runs;
  const auto failure = failure_on_cold(
      [](const Planted& c, const std::string& tier) { return tier != "sim" && c.steps >= 4; },
      {.steps = 30}, runs);
  EXPECT_EQ(planted::typed(failure.c), Planted{.steps = 4});
  EXPECT_EQ(failure.shrunk->tier, "warm");
  EXPECT_EQ(runs["sim"], 1);
  EXPECT_EQ(runs["cold"], 3 + 2) << "as it was found; confirmed, and for its story";
  EXPECT_GT(runs["warm"], 10);
}

TEST(CampaignTrials, WhatOnlyACheaperTierShowsIsNoSmallestCase) {
  std::map<std::string, int> runs;
  const auto failure = failure_on_cold(
      [](const Planted& c, const std::string& tier) {
        return c.steps >= (tier == "sim" ? 2 : 11) && c.micro_batches >= 3;
      },
      {.steps = 30, .micro_batches = 9}, runs);
  EXPECT_EQ(planted::typed(failure.c), (Planted{.steps = 11, .micro_batches = 3}));
  EXPECT_EQ(failure.shrunk->tier, "cold");
  EXPECT_EQ(failure.shrunk->end, Shrunk::End::smallest);
}

// Fails at every second run from three ranks on, at every tenth with fewer.
FakeTier::HistoryOf now_and_then(std::atomic<int>& count) {
  return [&count](const Case& c, FakeTier&) {
    const int every = planted::typed(c).world.size >= 3 ? 2 : 10;
    return toys::recorded(c, count++ % every == 0 ? 1 : 0);
  };
}

TEST(CampaignTrials, AFlakyCaseIsShrunkByItsRate) {
  std::atomic<int> count = 0;
  Bench bench;
  auto c = planted::large_case();
  c.world.injections.clear();
  const auto run = bench.run({job_of(c)}, now_and_then(count), shrinking_trials());
  const auto& result = run.results.at(0);
  EXPECT_EQ(result.kind, Result::Kind::flaky);
  EXPECT_EQ(planted::typed(result.failure->c), Planted{.world = {.size = 3}});
  EXPECT_EQ(result.failure->shrunk->failed, 5);
  EXPECT_EQ(result.failure->shrunk->smallest_runs, kFlakyRuns);
}

TEST(CampaignTrials, AFailureThatNeverComesAgainIsLeftAsItWas) {
  std::atomic<int> count = 0;
  Bench bench;
  const Planted c{.steps = 9};
  const auto run = bench.run(
      {job_of(c)},
      [&](const Case& run, FakeTier&) { return toys::recorded(run, count++ == 0 ? 1 : 0); },
      shrinking_trials());
  EXPECT_EQ(run.results.at(0).kind, Result::Kind::flaky);
  EXPECT_FALSE(run.results[0].failure->shrunk);
  EXPECT_EQ(run.results[0].failure->c, planted::erased(c));
}

}  // namespace
}  // namespace lockstep
