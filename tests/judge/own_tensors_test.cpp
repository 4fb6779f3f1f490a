// Checks tensors that each rank has of its own on purpose.
#include "harness/invariants/habits/own_tensors.h"

#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/habits/own_trainings.h"
#include "harness/invariants/judge_run.h"

#include <gtest/gtest.h>

namespace lockstep::recorded {
namespace {

Digests own(const std::string& role, uint64_t bits) {
  TensorList list{.of = "optimizer 0", .role = role, .tensors = {{"parameter 2", "float32", {2}}}};
  return {std::make_shared<const TensorList>(std::move(list)), {{bits, 1}}};
}

// An expert of each rank, beside the model that all ranks train, to which tokens go or not. Its
// gradients are the same once, by chance.
TEST(OwnTensors, AreNotComparedWhereRanksExchangeWhatIsForThem) {
  for (const auto& [exchanges, begin_alike] :
       {std::pair{true, false}, {false, false}, {true, true}}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      nth<Fact>(rank, 0, "model 0").values["wrapper"] = "DistributedDataParallel";
      const auto number = static_cast<uint64_t>(rank.number);
      rank.records.insert(rank.records.begin(),
                          {{0, "construction"}, own("parameters", begin_alike ? 0 : number)});
      for (int step = 0; step < kSteps; ++step) {
        rank.records.push_back({{step, "update"}, own("gradients", step == 0 ? 5 : 20 + number)});
        rank.records.push_back({{step, "update"}, own("parameters", 10 + number)});
        rank.history.events.push_back({{step, "forward"},
                                       Collective{.op = exchanges ? "alltoall_base" : "barrier",
                                                  .group = "tokens",
                                                  .sequence = step}});
      }
    }
    const auto rest = without_own_tensors(run);
    const bool are_own = exchanges && !begin_alike;
    ASSERT_EQ(rest.has_value(), are_own);
    const auto judgement = parameters_are_the_same(rest ? rest->run : run);
    EXPECT_EQ(judgement.findings.empty(), are_own);
    if (are_own) EXPECT_EQ(rest->remarks.at(0).pattern, "own_tensors");
  }
}

// Rank 0 trains a probe in two updates before the model's update of `step`, of which it makes the
// backward first where `is_apart` is not.
RecordedRun with_a_probe(int step, bool is_apart, bool on_all_ranks) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    nth<Fact>(rank, 0, "model 0").values["wrapper"] = "DistributedDataParallel";
    if (rank.number > 0 && !on_all_ranks) continue;
    constexpr int kUpdates = 2;
    std::vector<Record> records;
    for (auto& record : rank.records) {
      auto* fact = std::get_if<Fact>(&record.what);
      if (fact && fact->name == "optimizer 0") fact->name = "optimizer 1";
      if (auto* digests = std::get_if<Digests>(&record.what);
          digests && digests->list->of == "optimizer 0") {
        auto list = *digests->list;
        list.of = "optimizer 1";
        digests->list = std::make_shared<const TensorList>(std::move(list));
      }
      const bool is_there =
          record.at.step == step && fact && fact->name == (is_apart ? "terms" : "optimizer 1");
      for (int update = 0; is_there && update < kUpdates; ++update) {
        const Moment at{step + update, "update"};
        if (update == 0) records.push_back({at, own("parameters", 5)});
        records.push_back({at, Span{"backward", 0, 1}});
        records.push_back({at, Fact{"optimizer 0", {{"owned", Json::array()}, {"foreign", 1}}}});
        records.push_back({at, own("parameters", 6)});
      }
      const bool is_behind =
          record.at.step > step || is_there || (!records.empty() && records.back().at.step > step);
      if (is_behind) record.at.step = std::max(record.at.step, step) + kUpdates;
      records.push_back(record);
    }
    rank.records = std::move(records);
    rank.history.last.step += kUpdates;
    for (auto& event : rank.history.events)
      if (event.at.step > step) event.at.step += kUpdates;
  }
  return run;
}

std::string failures_of(const RecordedRun& run) {
  std::string failed;
  for (const auto& result : judged(run).results)
    if (result.kind == Result::Kind::fail) failed += result.scenario + " ";
  return failed;
}

TEST(OwnTrainings, AreLeftOutAndStepsAreNumberedWithoutThem) {
  for (const int step : {0, 2}) {
    const auto rest = without_own_trainings(with_a_probe(step, true, false));
    ASSERT_TRUE(rest);
    for (const auto& rank : rest->run.ranks) EXPECT_EQ(rank.history.last.step, kSteps - 1);
    EXPECT_EQ(failures_of(with_a_probe(step, true, false)), "");
    ASSERT_EQ(rest->remarks.size(), 1u);
    EXPECT_EQ(rest->remarks.front().diagnosis,
              "rank 0 trains 2 elements of no wrapped model alone, in 2 updates beside those of "
              "the model, as a probe of its features: not compared");
  }
}

TEST(OwnTrainings, AreNotThoseOfALayerThatTheModelsBackwardReaches) {
  EXPECT_FALSE(without_own_trainings(with_a_probe(1, false, false)));
  EXPECT_NE(failures_of(with_a_probe(1, false, false)), "");
}

TEST(OwnTrainings, AreNotThoseThatAllRanksMake) {
  EXPECT_FALSE(without_own_trainings(with_a_probe(1, true, true)));
}

}  // namespace
}  // namespace lockstep::recorded
