// Replicas without a wrapper, divided ones, and weights that are back at the update.
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"
#include "harness/invariants/rows.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::recorded {
namespace {

// Everything of a rank but its wrapper: an optimizer updates tensors that no model has.
void unwrap(RecordedRun& run) {
  for (auto& rank : run.ranks) {
    std::erase_if(rank.records, [](const Record& record) {
      const auto* fact = std::get_if<Fact>(&record.what);
      const auto* is = std::get_if<Digests>(&record.what);
      return (fact && (fact->name == "backward" || fact->name == "model 0")) ||
             (is && is->list->role != "state" && is->list->role != "parameters" &&
              is->list->role != "gradients");
    });
    for (auto& record : rank.records) {
      if (auto* is = std::get_if<Digests>(&record.what); is && is->list->role != "state") {
        auto list = *is->list;
        list.of = "optimizer 0";
        is->list = std::make_shared<const TensorList>(std::move(list));
        if (is->list->role == "gradients") record.at.phase = "update";
      }
      if (auto* fact = std::get_if<Fact>(&record.what); fact && fact->name == "optimizer 0")
        fact->values["owned"] = Json::array();
    }
    std::erase_if(rank.history.events, [](const Event& event) {
      const auto* is = std::get_if<Collective>(&event.what);
      return is && is->op.starts_with("ddp_");
    });
  }
}

void issue_in_each_step(RecordedRun& run, const char* op, int64_t elements,
                        const char* dtype = "float32") {
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      rank.history.events.push_back({{step, "backward"},
                                     Collective{.op = op,
                                                .group = "world",
                                                .dtype = dtype,
                                                .sequence = step,
                                                .elements = elements,
                                                .done = true}});
}

void let_gradients_differ(RecordedRun& run, size_t tensors) {
  for (int step = 0; step < kSteps; ++step)
    for (size_t tensor = 0; tensor < tensors; ++tensor)
      nth<Digests>(run.ranks[1], step, "gradients").values[tensor].bits += 100;
}

TEST(Replicas, FindThatNothingWasWrappedAndNothingElseAveraged) {
  auto run = right_run();
  unwrap(run);
  const auto findings = forwards_run_through_the_wrapper(run).findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings.front().pattern, "nobody_averaged");
  EXPECT_EQ(findings.front().diagnosis.find("no model was wrapped in DistributedDataParallel, and "
                                            "nothing else averaged gradients"),
            0u);
}

TEST(Replicas, AreNotAveragedByTheCollectivesOfALogNorOfACheckpoint) {
  auto run = right_run();
  unwrap(run);
  let_gradients_differ(run, 2);
  issue_in_each_step(run, "allreduce", 1);
  issue_in_each_step(run, "allgather", 40, "uint8");
  for (int step = 0; step < kSteps; ++step)
    nth<Digests>(run.ranks[1], 1 + step, "parameters").values[0].bits += 100;
  EXPECT_EQ(forwards_run_through_the_wrapper(run).findings.at(0).pattern, "nobody_averaged");
}

TEST(Replicas, AreNotAveragedByAnOptimizerThatSendsThem) {
  auto run = right_run();
  unwrap(run);
  let_gradients_differ(run, 2);
  EXPECT_TRUE(forwards_run_through_the_wrapper(run).findings.empty());  // by something unseen
  issue_in_each_step(run, "broadcast", 4);
  EXPECT_EQ(forwards_run_through_the_wrapper(run).findings.at(0).pattern, "nobody_averaged");
}

TEST(Replicas, AreAveragedInPartWhereSomeGradientsAreTheSame) {
  auto run = right_run();
  unwrap(run);
  let_gradients_differ(run, 1);
  issue_in_each_step(run, "allreduce", 2);
  nth<Digests>(run.ranks[1], 1, "parameters").values[0].bits += 100;
  EXPECT_TRUE(forwards_run_through_the_wrapper(run).findings.empty());
  EXPECT_FALSE(parameters_are_the_same(run).findings.empty());
}

// Collectives that no recorder sees, such as functional ones.
TEST(Replicas, AreAveragedUnseenWhereRanksAgreeThoughTheirBatchesDiffer) {
  for (const bool differ : {true, false}) {
    auto run = right_run();
    unwrap(run);
    for (auto& rank : run.ranks) {
      rank.history.events.clear();
      rank.history.ending.kind = Ending::Kind::returned;
      const auto drawn = std::find_if(rank.records.begin(), rank.records.end(), [](const auto& is) {
        const auto* indices = std::get_if<Drawn>(&is.what);
        return indices && indices->name == "loader 0";
      });
      const auto print = differ ? std::to_string(rank.number) : "a";
      rank.records.insert(drawn + 1,
                          {drawn->at, Fact{"batch", {{"loader", "loader 0"}, {"print", print}}}});
    }
    EXPECT_EQ(forwards_run_through_the_wrapper(run).findings.empty(), differ);
    EXPECT_EQ(collectives_have_one_order(run).findings.empty(), differ);
  }
}

TEST(Replicas, CompareParametersThatAreAveragedByHand) {
  auto run = right_run();
  unwrap(run);
  issue_in_each_step(run, "allreduce", 4);
  EXPECT_TRUE(forwards_run_through_the_wrapper(run).findings.empty());
  EXPECT_EQ(parameters_are_the_same(run).compared, "5 times");
  nth<Digests>(run.ranks[1], 2, "parameters").values[1].bits = 8;
  const auto judgement = parameters_are_the_same(run);
  ASSERT_FALSE(judgement.findings.empty());
  EXPECT_EQ(judgement.findings.front().where, "step 1, update, w1");
}

// The gradients that one rank's update took in step 1, whose norms are `factors` times those of the
// backward.
RecordedRun updated_with_others(std::vector<double> factors) {
  auto run = right_run();
  auto& rank = run.ranks[1];
  auto taken = nth<Digests>(rank, 1, "gradients");
  auto list = *taken.list;
  list.role = "taken";
  taken.list = std::make_shared<const TensorList>(list);
  for (size_t at = 0; at < factors.size(); ++at)
    taken.values[at] = {900, taken.values[at].norm * factors[at]};
  const auto update = std::find_if(rank.records.begin(), rank.records.end(), [](const auto& is) {
    return is.at.step == 1 && is.at.phase == "update";
  });
  rank.records.insert(update, {{1, "update"}, taken});
  for (int n = 2; n <= kSteps; ++n) nth<Digests>(rank, n, "parameters").values[0].bits += 100;
  return run;
}

TEST(Replicas, SayWithWhichGradientsEachRankUpdatedWhereOneChangedItsOwn) {
  const auto diagnosis = [](std::vector<double> factors) {
    const auto judgement = parameters_are_the_same(updated_with_others(std::move(factors)));
    return judgement.findings.empty() ? "" : judgement.findings.front().diagnosis;
  };
  EXPECT_NE(diagnosis({2, 2}).find("rank 0 has those of the backward, rank 1 has 2 times those"),
            std::string::npos);
  for (const auto& other : {std::vector<double>{2, 3}, {1, 1}})
    EXPECT_NE(diagnosis(other).find("rank 0 has those of the backward, rank 1 has others"),
              std::string::npos);
  auto same = updated_with_others({2, 2});  // the update alone parts the ranks
  std::erase_if(same.ranks[1].records,
                [](const Record& record) { return digests_in(record, "taken") != nullptr; });
  EXPECT_EQ(parameters_are_the_same(same).findings.front().diagnosis.find("gradients"),
            std::string::npos);
}

TEST(Replicas, HaveTheirGradientsNumberedWhereAStepHasSeveralBackwards) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    auto again = nth<Digests>(rank, 0, "gradients");
    rank.records.push_back({{0, "backward"}, std::move(again)});
  }
  const auto rows = rows_of(run, "gradients");
  EXPECT_EQ(place_of(rows.at(0)) + ", " + place_of(rows.at(1)),
            "step 0, backward, step 0, backward 2");
}

TEST(Replicas, AreNoPassWhereNoParametersWereCompared) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    std::erase_if(rank.records,
                  [](const Record& record) { return digests_in(record, "parameters") != nullptr; });
  for (const auto& result : judged(run).results)
    if (result.scenario == "parameters.are_the_same") {
      EXPECT_EQ(result.kind, Result::Kind::inconclusive);
    }
}

TEST(Replicas, DoNotCompareWhatIsDividedOverTheRanks) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    Json tensors = Json::array();
    for (const char* name : {"w0", "w1"})
      tensors.push_back(
          Json::array({name, Json::array({4}), Json::array({2 * rank.number}), false}));
    rank.records.insert(
        rank.records.begin() + 2,
        {{0, "construction"}, Fact{"shards", {{"of", "model 0"}, {"tensors", tensors}}}});
    for (auto& record : rank.records)
      if (auto* is = std::get_if<Digests>(&record.what);
          is && (is->list->role == "parameters" || is->list->role == "gradients"))
        for (auto& digest : is->values) digest.bits += 1000 * static_cast<uint64_t>(rank.number);
  }
  EXPECT_TRUE(parameters_are_the_same(run).findings.empty());
  EXPECT_NE(parameters_are_the_same(run).why_not.find("divided over the ranks"), std::string::npos);
  EXPECT_EQ(passes_are_partitions(run).why_not, "ranks that divide a layer share their batches");
  EXPECT_FALSE(compared_what_was_asked(judged(run)));
  nth<Fact>(run.ranks[1], 0, "shards").values["tensors"][0][2] = Json::array({0});
  EXPECT_FALSE(parameters_are_the_same(run).findings.empty());  // two replicas, and a hole
}

TEST(Replicas, LetAStateBeDividedOverTheRanksByItsNames) {
  auto run = right_run();
  const auto keep = [](Rank& rank, const std::string& name) {
    for (auto& record : rank.records)
      if (auto* is = std::get_if<Digests>(&record.what); is && is->list->role == "state") {
        auto list = *is->list;
        list.tensors[0].name = name;
        is->list = std::make_shared<const TensorList>(std::move(list));
      }
  };
  keep(run.ranks[0], "model 0 w0 momentum");
  keep(run.ranks[1], "model 0 w1 momentum");
  const auto judgement = optimizer_state_is_the_same(run);
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_NE(judgement.why_not.find("divided over the ranks"), std::string::npos);
  for (auto& record : run.ranks[1].records)
    if (auto* is = std::get_if<Digests>(&record.what); is && is->list->role == "state")
      *is = digests("state", {});
  EXPECT_EQ(optimizer_state_is_the_same(run).findings.at(0).pattern, "other_shape");
}

TEST(Replicas, CallWeightsThatAreBackAtTheUpdateARemark) {
  auto run = right_run();
  run.ranks[1].records.push_back({{1, "forward"}, digests("parameters", {{5, 1}, {5, 1}})});
  const auto judgement = parameters_are_the_same(run);
  EXPECT_TRUE(judgement.findings.empty());
  ASSERT_EQ(judgement.remarks.size(), 1u);
  EXPECT_EQ(judgement.remarks.front().pattern, "back_at_the_update");
}

TEST(Replicas, CallWeightsThatWereWrittenAndDidNotChangeNothing) {
  auto run = right_run();
  run.ranks[1].records.push_back({{1, "forward"}, nth<Digests>(run.ranks[1], 1, "parameters")});
  const auto judgement = parameters_are_the_same(run);
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_TRUE(judgement.remarks.empty());
}

// A scheduler copies lr to initial_lr.
TEST(Replicas, NameTheLearningRateAndNotItsCopy) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    const double rate = 0.5 + rank.number;
    nth<Fact>(rank, 1, "optimizer 0").values["groups"] =
        Json::array({{{"initial_lr", rate}, {"lr", rate}}});
  }
  const auto finding = hyper_parameters_are_the_same(run).findings.at(0);
  EXPECT_EQ(finding.diagnosis.find("initial_lr"), std::string::npos) << finding.diagnosis;
}

TEST(Replicas, FindAnOptimizerThatLacksAParameterWithAGradient) {
  auto run = right_run();
  auto none = digests("parameters", {});
  none.list = std::make_shared<const TensorList>(
      TensorList{.of = "optimizer 0", .role = "parameters", .tensors = {}});
  run.ranks[0].records.push_back({{0, "construction"}, none});
  EXPECT_TRUE(optimizers_own_parameters_once(run).findings.empty());
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      nth<Fact>(rank, step, "optimizer 0").values["owned"].erase(1);
  const auto finding = optimizers_own_parameters_once(run).findings.at(0);
  EXPECT_EQ(finding.pattern, "in_no_optimizer");
  EXPECT_EQ(finding.where, "step 0, model 0 w1");
}

}  // namespace
}  // namespace lockstep::recorded
