// Checks that no invariant fails on right but rare or customary programs.
#include "harness/invariants/invariants.h"
#include "harness/invariants/right_run.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::recorded {
namespace {

// DistributedDataParallel refuses an unused parameter unless it is set to expect some; any other
// averaging of gradients takes a model as it is.
TEST(RightWays, AllowAParameterThatNoBackwardReachesWhereTheProgramExpectsOne) {
  const auto judgement_with = [](const Json& about) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      nth<Fact>(rank, 0, "model 0").values.update(about);
      for (int step = 0; step < kSteps; ++step)
        nth<Digests>(rank, step, "gradients").values[1] = {0, -1};
    }
    return gradients_reach_every_parameter(run);
  };
  for (const Json& expecting :
       {Json{{"find_unused_parameters", true}}, Json{{"static_graph", true}},
        Json{{"wrapper", "watched"}}, Json{{"wrapper", "fully_shard"}},
        Json{{"wrapped", false}, {"find_unused_parameters", false}}}) {
    const auto judgement = judgement_with(expecting);
    EXPECT_TRUE(judgement.findings.empty()) << expecting;
    ASSERT_EQ(judgement.remarks.size(), 1u) << expecting;
    EXPECT_EQ(judgement.remarks.front().pattern, "never_a_gradient");
  }
  for (const Json& strict : {Json{{"wrapper", "DistributedDataParallel"}},
                             Json{{"wrapped", true}, {"find_unused_parameters", false}}}) {
    EXPECT_EQ(judgement_with(strict).findings.size(), 1u) << strict;
    EXPECT_TRUE(judgement_with(strict).remarks.empty()) << strict;
  }
}

// No recorder of Python sees what tensor parallelism sends.
TEST(RightWays, AllowDividedTensorsWhereNoCollectiveWasRecorded) {
  auto run = right_run();
  for (auto& rank : run.ranks) rank.history.events = {};
  EXPECT_EQ(collectives_have_one_order(run).findings.at(0).pattern, "no_collective");
  for (auto& rank : run.ranks)
    rank.records.insert(
        rank.records.begin(),
        {{0, "construction"},
         Fact{"shards",
              {{"of", "model 0"},
               {"tensors", Json::array({Json::array({"w0", Json::array({4}),
                                                     Json::array({2 * rank.number}), false})})}}}});
  EXPECT_NE(collectives_have_one_order(run).why_not, "");
}

TEST(RightWays, AllowASecondOptimizerThatReplacesTheFirst) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int step = kSteps - 1; step >= kSteps / 2; --step)
      nth<Fact>(rank, step, "optimizer 0").name = "optimizer 1";
  EXPECT_TRUE(optimizers_own_parameters_once(run).findings.empty());
}

TEST(RightWays, AllowAFurtherBackwardAfterWhichAllRanksAgree) {
  for (const bool agree : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      const Moment at{1, "backward"};
      const auto next = std::find_if(rank.records.begin(), rank.records.end(), [](const auto& is) {
        return is.at.step == 1 && is.at.phase == "update";
      });
      const uint64_t bits = agree ? 5 : 5 + static_cast<uint64_t>(rank.number);
      rank.records.insert(next, {{at, Fact{"backward", {{"model", "model 0"}, {"kind", "again"}}}},
                                 {at, digests("gradients", {{bits, 1}, {bits, 1}})}});
    }
    EXPECT_EQ(forwards_run_through_the_wrapper(run).findings.empty(), agree);
  }
}

TEST(RightWays, CallParametersThatAreAveragedBetweenUpdatesARemark) {
  for (const bool average : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      nth<Digests>(rank, 1, "gradients").values[1].bits = 70 + static_cast<uint64_t>(rank.number);
      nth<Digests>(rank, 2, "parameters").values[1].bits = 80 + static_cast<uint64_t>(rank.number);
      nth<Digests>(rank, 1, "state").values[0].bits = 90 + static_cast<uint64_t>(rank.number);
      nth<Fact>(rank, 1, "backward").values["kind"] = "no_sync";
      if (average)
        rank.records.push_back({{2, "forward"}, digests("parameters", {{6, 1}, {6, 1}})});
    }
    const auto judgement = parameters_are_the_same(run);
    EXPECT_EQ(judgement.findings.empty(), average);
    EXPECT_EQ(judgement.remarks.empty(), !average);
    EXPECT_EQ(forwards_run_through_the_wrapper(run).findings.empty(), average);
    EXPECT_EQ(optimizer_state_is_the_same(run).findings.empty(), average);
  }
}

TEST(RightWays, AllowAnUpdateFromGradientsOfWhichTheLastWereAveraged) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    auto& records = rank.records;
    const auto averaged = std::find_if(records.begin(), records.end(), [](const auto& record) {
      const auto* fact = std::get_if<Fact>(&record.what);
      return fact && fact->name == "backward";
    });
    const Fact local{"backward", {{"model", "model 0"}, {"kind", "no_sync"}}};
    records.insert(averaged, {averaged->at, local});
  }
  EXPECT_TRUE(forwards_run_through_the_wrapper(run).findings.empty());
}

}  // namespace
}  // namespace lockstep::recorded
