// Checks that no invariant fails on right but rare or customary programs.
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

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
      return fact_in(record, "backward") != nullptr;
    });
    const Fact local{"backward", {{"model", "model 0"}, {"kind", "no_sync"}}};
    records.insert(averaged, {averaged->at, local});
  }
  EXPECT_TRUE(forwards_run_through_the_wrapper(run).findings.empty());
}

// Adds a backward within no_sync behind that of step 1, whose gradients are the rank's own, or not.
void add_local_backward(Rank& rank, bool is_own) {
  const Moment at{1, "backward"};
  const auto next = std::find_if(rank.records.begin(), rank.records.end(), [](const auto& is) {
    return is.at.step == 1 && is.at.phase == "update";
  });
  const uint64_t bits = is_own ? 50 + static_cast<uint64_t>(rank.number) : 50;
  rank.records.insert(next, {{at, Fact{"backward", {{"model", "model 0"}, {"kind", "no_sync"}}}},
                             {at, digests("gradients", {{bits, 1}, {bits, 1}})}});
}

TEST(RightWays, AllowAnUpdateWhoseLastBackwardStayedLocalOnlyWhereAllRanksAgreeAfterIt) {
  for (const bool is_own : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) add_local_backward(rank, is_own);
    const auto judgement = forwards_run_through_the_wrapper(run);
    ASSERT_EQ(judgement.findings.size(), is_own ? 1u : 0u);
    if (!is_own) continue;
    EXPECT_EQ(judgement.findings.front().pattern, "update_not_averaged");
    EXPECT_NE(judgement.findings.front().diagnosis.find("after the last one that averages"),
              std::string::npos);
  }
}

TEST(RightWays, AllowAnUpdateFromGradientsOfNoSyncThatTheProgramAveragedItself) {
  for (const bool averages : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      nth<Fact>(rank, 1, "backward").values["kind"] = "no_sync";
      const auto own = static_cast<uint64_t>(rank.number);
      nth<Digests>(rank, 1, "gradients").values[0].bits = 70 + own;
      const auto next = std::find_if(rank.records.begin(), rank.records.end(), [](const auto& is) {
        return is.at.step == 1 && is.at.phase == "update";
      });
      const uint64_t bits = averages ? 5 : 5 + own;
      rank.records.insert(next, {{1, "update"}, digests("taken", {{bits, 1}, {bits, 1}})});
    }
    EXPECT_EQ(forwards_run_through_the_wrapper(run).findings.empty(), averages);
  }
}

// Ranks that train the two halves of a network, each with an optimizer of its own.
RecordedRun run_of_stages(bool is_sent, bool is_wrapped) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    const auto own = static_cast<uint64_t>(rank.number);
    nth<Fact>(rank, 0, "model 0").values["wrapper"] =
        is_wrapped ? "DistributedDataParallel" : "watched";
    for (int n = 0; n <= kSteps; ++n)
      nth<Digests>(rank, n, "parameters").values[0].bits += 100 * own;
    for (int n = 0; n < kSteps; ++n) nth<Digests>(rank, n, "state").values[0].bits += 100 * own;
    if (is_sent)
      rank.records.push_back({{0, "forward"}, Fact{"exchange", {{"at", "stages.py:7"}}}});
  }
  return run;
}

TEST(RightWays, DoNotJudgeTheStagesOfAPipeline) {
  const auto stages = run_of_stages(true, false);
  for (auto* const judge :
       {parameters_are_the_same, optimizer_state_is_the_same, forwards_run_through_the_wrapper}) {
    EXPECT_NE(judge(stages).why_not.find("stages of a pipeline"), std::string::npos);
    EXPECT_TRUE(judge(stages).findings.empty());
  }
  for (const auto& run : {run_of_stages(false, false), run_of_stages(true, true)})
    EXPECT_FALSE(parameters_are_the_same(run).findings.empty());
}

TEST(RightWays, AllowARankThatBelongsToMoreGroupsThanAnother) {
  for (const std::string group : {"ranks 0", "world"}) {
    auto run = right_run();
    for (auto& rank : run.ranks) rank.history.ending.kind = Ending::Kind::returned;
    run.ranks[0].history.events.push_back(
        {{kSteps - 1, "update"}, Collective{.op = "allreduce", .group = group, .done = true}});
    EXPECT_EQ(ranks_make_the_same_steps(run).findings.empty(), group != "world");
  }
}

// Four ranks, of which two train one model and two another one.
RecordedRun run_of_two_groups() {
  auto run = right_run();
  const auto second = right_run();
  run.ranks.insert(run.ranks.end(), second.ranks.begin(), second.ranks.end());
  for (int number = 0; number < 4; ++number) {
    auto& rank = run.ranks[static_cast<size_t>(number)];
    rank.number = number;
    rank.world = 4;
    rank.history.ending.kind = Ending::Kind::returned;
    nth<Fact>(rank, 0, "process group").values = {{"rank", number}, {"world", 4}};
    auto& model = nth<Fact>(rank, 0, "model 0").values;
    model["wrapper"] = "DistributedDataParallel";
    model["ranks"] = number < 2 ? Json{0, 1} : Json{2, 3};
    if (number < 2) continue;
    for (int n = 0; n <= kSteps; ++n) nth<Digests>(rank, n, "parameters").values[0].bits += 100;
    for (int n = 0; n < kSteps; ++n) nth<Digests>(rank, n, "gradients").values[0].bits += 100;
  }
  return run;
}

TEST(RightWays, AllowGroupsOfRanksThatTrainAModelEachAndJudgeEach) {
  for (const bool is_wrong : {false, true}) {
    auto run = run_of_two_groups();
    if (is_wrong) nth<Digests>(run.ranks[3], 2, "parameters").values[0].bits = 7;
    const auto results = judged(run).results;
    for (const auto& result : results)
      EXPECT_EQ(is_failure(result.kind), is_wrong && result.scenario == "parameters.are_the_same")
          << result.scenario;
    if (!is_wrong) continue;
    const auto failed = std::find_if(results.begin(), results.end(),
                                     [](const Result& is) { return is_failure(is.kind); });
    ASSERT_NE(failed, results.end());
    EXPECT_NE(failed->worst.findings.front().diagnosis.find("among ranks 2, 3, numbered from 0: "),
              std::string::npos)
        << failed->worst.findings.front().diagnosis;
  }
}

// A mask of attention, or an observer of ranges, is infinite before anything is trained.
TEST(RightWays, AllowBuffersThatBeginInfinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto found_with = [](const std::vector<double>& norms) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      for (size_t step = 0; step < norms.size(); ++step)
        nth<Digests>(rank, static_cast<int>(step), "buffers").values[0].norm = norms[step];
    return !values_stay_finite(run).findings.empty();
  };
  EXPECT_FALSE(found_with({infinity, infinity, 1, 1}));
  EXPECT_FALSE(found_with({infinity, infinity, infinity, infinity}));
  EXPECT_TRUE(found_with({infinity, infinity, std::nan(""), 1}));
  EXPECT_TRUE(found_with({1, 1, infinity, 1}));
  EXPECT_TRUE(found_with({infinity, 1, infinity, 1}));
  for (const char* role : {"buffers", "state"}) {  // on one rank alone; by an update
    auto run = right_run();
    nth<Digests>(run.ranks[1], 0, role).values[0].norm = infinity;
    EXPECT_EQ(values_stay_finite(run).findings.size(), 1u) << role;
  }
}

// Rank 1 steps one of two optimizers, so that its first is the second of rank 0.
TEST(RightWays, DoNotTakeOptimizersThatRanksNumberOtherwiseForTwoOfOneParameter) {
  auto run = right_run();
  const auto owns = [](Fact& update, const char* name) {
    update.values["owned"] = Json::array({Json::array({"model 0", name})});
  };
  for (int step = 0; step < kSteps; ++step) {
    auto& update = nth<Fact>(run.ranks[0], (step + 1) / 2, "optimizer 0");
    owns(update, step % 2 ? "w1" : "w0");
    if (step % 2) update.name = "optimizer 1";
    owns(nth<Fact>(run.ranks[1], step, "optimizer 0"), "w1");
  }
  EXPECT_TRUE(optimizers_own_parameters_once(run).findings.empty());
  owns(nth<Fact>(run.ranks[0], 0, "optimizer 1"), "w0");
  EXPECT_EQ(optimizers_own_parameters_once(run).findings.at(0).pattern, "two_optimizers");
}

}  // namespace
}  // namespace lockstep::recorded
