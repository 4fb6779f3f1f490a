// Ways to train that are no averages of one model's gradients: what is wrong, a remark, not judged.
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/habits/not_data_parallel.h"
#include "harness/invariants/judge_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace lockstep::recorded {
namespace {

std::string patterns_of(const Findings& findings) {
  std::string patterns;
  for (const auto& finding : findings) patterns += finding.pattern + " ";
  return patterns;
}

void sort_records(RecordedRun& run) {
  for (auto& rank : run.ranks)
    std::stable_sort(rank.records.begin(), rank.records.end(),
                     [](const auto& a, const auto& b) { return comes_before(a.at, b.at); });
}

// Judges what ranks computed, three values each, and the update that all took.
std::string judged_values(const std::vector<std::vector<double>>& own,
                          const std::vector<double>& taken) {
  auto run = right_run(static_cast<int>(own.size()));
  for (auto& rank : run.ranks)
    for (const auto& [name, values] :
         {std::pair{"own gradients", own[size_t(rank.number)]}, {"averaged gradients", taken}})
      rank.records.push_back(
          {{1, "update"}, Fact{name, {{"of", "model 0"}, {"tensors", {{"w", values}}}}}});
  return patterns_of(gradients_are_averages(run).findings);
}

TEST(OtherReductions, AreNoAverages) {
  const std::vector<std::vector<double>> own{{1, -4, 2}, {3, 2, -7}, {9, 5, 1}};
  EXPECT_EQ(judged_values(own, own[1]), "one_ranks_gradient ");
  EXPECT_EQ(judged_values(own, {9, 5, 2}), "another_reduction ");    // the largest
  EXPECT_EQ(judged_values(own, {1, -4, -7}), "another_reduction ");  // the least
  EXPECT_EQ(judged_values(own, {3, 2, 1}), "another_reduction ");    // the median
  EXPECT_EQ(judged_values(own, {13 / 3., 1, -4 / 3.}), "");
  EXPECT_EQ(judged_values(own, {13 / 30., 0.1, -4 / 30.}), "");  // clipped
  EXPECT_EQ(judged_values(own, {1, 1, -1}), "");                 // compressed to signs
  // Each reduction of equal gradients, or of one rank's alone, is an average or a part of one.
  EXPECT_EQ(judged_values({{1, -4, 2}, {1, -4, 2}}, {1, -4, 2}), "");
  EXPECT_EQ(judged_values({{1, -4, 2}, {0, 0, 0}}, {0.5, -2, 1}), "");
}

TEST(SameGradients, BeforeEachAverageAreFound) {
  const auto plant = [](double of_rank_1, double later, const char* of = "optimizer 0",
                        int64_t exchanged = 0) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      for (const int step : {0, 1}) {
        rank.history.events.push_back(
            {{step, "forward"},
             Collective{.op = "allgather", .group = "world", .elements = exchanged}});
        const double own = 1 + later * step + of_rank_1 * rank.number * step;
        const Json values = {own, 2 * own, 3 * own};
        for (const char* name : {"own gradients", "averaged gradients"})
          rank.records.push_back(
              {{step, "update"}, Fact{name, {{"of", of}, {"tensors", {{"w", values}}}}}});
      }
    return patterns_of(gradients_are_averages(run).findings);
  };
  EXPECT_EQ(plant(0, 1), "same_data ");
  EXPECT_EQ(plant(1e-9, 1), "");
  EXPECT_EQ(plant(0, 0), "");  // gradients that never change say nothing
  EXPECT_EQ(plant(0, 1, "optimizer 0", 1024), "same_data ");
  EXPECT_EQ(plant(0, 1, "optimizer 0", 1025), "");  // activations, of which ranks compute parts
  EXPECT_EQ(plant(0, 1, "model 0"), "") << "a backward of the bare module behind an average";
}

TEST(OtherLosses, AreRemarkedOnWhereMostBackwardsHaveThem) {
  for (const int steps : {1, 2, kSteps}) {
    auto run = right_run();
    for (int step = 0; step < steps; ++step)
      nth<Fact>(run.ranks[1], step, "terms").values = {{"function", "sum"}, {"weight", 1.0}};
    const auto remarks = gradients_are_averages(run).remarks;
    EXPECT_EQ(patterns_of(remarks), steps == 1 ? "" : "other_losses ");
    if (steps > 1)
      EXPECT_NE(remarks[0].diagnosis.find("rank 0 has nll_loss over 4 terms, rank 1 has sum"),
                std::string::npos)
          << remarks[0].diagnosis;
  }
}

TEST(Labels, ThatNameTheFirstFeaturesOnEveryRankAreRemarkedOn) {
  for (const int ranks : {1, 2}) {
    auto run = right_run();
    for (int rank = 0; rank < ranks; ++rank)
      for (int step = 0; step < kSteps; ++step)
        nth<Fact>(run.ranks[size_t(rank)], step, "terms").values["labels"] = "first";
    EXPECT_EQ(patterns_of(gradients_are_averages(run).remarks),
              ranks == 1 ? "" : "labels_without_offset ");
  }
}

// As passes begin, from step `from` up to `to` ranks have buffers of their own.
std::string judged_buffers(int from, int to) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step) {
      auto is = digests("own buffers", {{uint64_t(step), 1}});
      if (step >= from && step < to) is.values[0].bits = 90 + uint64_t(rank.number);
      rank.records.push_back({{step, "data"}, is});
    }
  return patterns_of(buffers_follow_rank_zero(run).remarks);
}

TEST(OwnBuffers, AreRemarkedOnUnlessTheProgramMakesThemTheSame) {
  EXPECT_EQ(judged_buffers(1, kSteps), "own_buffers ");
  EXPECT_EQ(judged_buffers(1, kSteps - 1), "");
  EXPECT_EQ(judged_buffers(2, kSteps), "");
  EXPECT_EQ(judged_buffers(kSteps, kSteps), "");
}

// Ranks took statistics of one element, of which nothing was sent.
TEST(OwnStatistics, AreRemarkedOnUnlessTheProgramSendsThem) {
  for (const bool sends : {false, true}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      auto is = digests("statistics", {{uint64_t(rank.number), 1}});
      auto list = *is.list;
      list.tensors[0].shape = {1};
      is.list = std::make_shared<const TensorList>(std::move(list));
      rank.records.push_back({{1, "forward"}, is});
      if (sends)
        rank.history.events.push_back(
            {{1, "forward"}, Collective{.op = "allreduce", .group = "world", .elements = 1}});
    }
    EXPECT_EQ(patterns_of(buffers_follow_rank_zero(run).remarks),
              sends ? "" : "statistics_of_own_part ");
  }
}

TEST(Copies, ThatRanksLoadInOtherStepsAreRemarkedOn) {
  for (const bool alike : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      for (const int step : {0, 2})
        rank.records.push_back({{step + (alike ? 0 : rank.number), "update"},
                                Fact{"copy 0", {{"kind", "Net"}, {"loaded", true}}}});
    const auto remarks = parameters_are_the_same(run).remarks;
    EXPECT_EQ(patterns_of(remarks), alike ? "" : "loaded_at_other_steps ");
    if (!alike)
      EXPECT_NE(remarks[0].diagnosis.find("rank 0 has steps 0, 2, rank 1 has steps 1, 3"),
                std::string::npos)
          << remarks[0].diagnosis;
  }
}

// An evaluation behind update `step` - 1 of ranks with parameters of their own.
Judgement evaluated_unlike_in(int step) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    rank.records.push_back(
        {{step, "forward"}, digests("evaluated", {{80 + uint64_t(rank.number), 1}})});
  sort_records(run);
  return parameters_are_the_same(run);
}

TEST(Evaluations, WithOtherParametersOnEachRankAreFound) {
  EXPECT_EQ(patterns_of(evaluated_unlike_in(kSteps).findings), "changed_on_some_ranks ");
  EXPECT_EQ(patterns_of(evaluated_unlike_in(2).findings), "");
  EXPECT_EQ(patterns_of(evaluated_unlike_in(2).remarks), "back_at_the_update ");
}

TEST(Evaluations, ThatNothingReducesAreRemarkedOn) {
  const auto plant = [](const char* op, int ranks) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      for (size_t at = 0; at < rank.records.size(); ++at)
        if (const auto* drawn = std::get_if<Drawn>(&rank.records[at].what)) {
          const auto when = rank.records[at].at;
          const Fact batch{"batch", {{"loader", drawn->name}, {"print", std::to_string(at)}}};
          ++at;
          rank.records.insert(rank.records.begin() + std::ptrdiff_t(at), {when, batch});
        }
      nth<Fact>(rank, 0, "loader 1").values["replicas"] = rank.number < ranks ? 2 : 1;
      if (!*op) continue;
      rank.history.events.insert(rank.history.events.begin(),
                                 {{0, "data"}, Collective{.op = op, .group = "world"}});
      rank.records.insert(rank.records.begin() + 8,
                          {{0, "data"}, Fact{"call", {{"at", "a.py:1"}}}});
    }
    return patterns_of(evaluations_repeat_no_sample(run).remarks);
  };
  EXPECT_EQ(plant("", 2), "evaluation_not_reduced ");
  EXPECT_EQ(plant("barrier", 2), "evaluation_not_reduced ");
  EXPECT_EQ(plant("allreduce", 2), "");
  EXPECT_EQ(plant("allgather", 1), "evaluation_not_reduced ");  // rank 0 alone
}

TEST(Evaluations, ThatDropTheLastSamplesAreRemarkedOn) {
  for (const bool drops : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      nth<Fact>(rank, 0, "loader 1").values.update({{"length", 3}, {"drops", drops}});
    EXPECT_EQ(patterns_of(evaluations_repeat_no_sample(run).remarks),
              drops ? "evaluation_left_out " : "");
  }
}

TEST(Orders, OfCutPassesThatBeginAgainAreFound) {
  const auto plant = [](int passes, bool same) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      const auto loader = nth<Fact>(rank, 0, "loader 0");
      const auto backward = nth<Fact>(rank, 0, "backward");
      const auto drawn = nth<Drawn>(rank, 0, "loader 0");
      std::erase_if(rank.records, [](const Record& record) {
        const auto* fact = std::get_if<Fact>(&record.what);
        return std::holds_alternative<Drawn>(record.what) ||
               (fact && (fact->name.starts_with("loader ") || fact->name == "backward"));
      });
      for (int pass = 0; pass < passes; ++pass) {
        auto other = drawn;
        if (!same) other.indices[0] = 9 + pass;
        rank.records.push_back({{pass, "data"}, loader});
        rank.records.push_back({{pass, "data"}, other});
        rank.records.push_back({{pass, "backward"}, backward});
      }
    }
    return patterns_of(orders_change(run).findings);
  };
  EXPECT_EQ(plant(3, true), "epoch_ignored ");
  EXPECT_EQ(plant(2, true), "");
  EXPECT_EQ(plant(3, false), "");
}

// Ranks that train an optimizer's tensors, with gradients and parameters of their own.
RecordedRun own_parameters(const std::function<void(Rank&, int)>& in_step) {
  RecordedRun run;
  for (int number = 0; number < 2; ++number) {
    Rank rank{.is_there = true, .number = number, .world = 2};
    const auto list = [&](const char* role, uint64_t bits) {
      auto is = digests(role, {{bits + uint64_t(number), 1}, {bits + 50 + uint64_t(number), 1}});
      auto named = *is.list;
      named.of = "optimizer 0";
      is.list = std::make_shared<const TensorList>(std::move(named));
      return is;
    };
    for (int step = 0; step < kSteps; ++step) {
      if (step > 0) rank.records.push_back({{step, "forward"}, list("parameters", 100)});
      in_step(rank, step);
      rank.records.push_back({{step, "update"}, list("gradients", 200)});
      rank.records.push_back({{step, "update"}, Fact{"optimizer 0", {{"foreign", 2}}}});
      rank.records.push_back({{step, "update"}, list("parameters", 300)});
    }
    rank.history.last = {kSteps - 1, "update"};
    run.ranks.push_back(std::move(rank));
  }
  return run;
}

TEST(NotDataParallel, AreElasticAveragingAndDividedLayers) {
  const auto reason = [](const RecordedRun& run) {
    const auto* why = not_data_parallel(run);
    if (why) EXPECT_EQ(parameters_are_the_same(run).why_not, why);
    return std::string(why ? why : "");
  };
  const auto sends = [](int64_t elements) {
    return own_parameters([elements](Rank& rank, int step) {
      rank.history.events.push_back(
          {{step, "update"},
           Collective{
               .op = "allreduce", .group = "world", .dtype = "float32", .elements = elements}});
    });
  };
  EXPECT_NE(reason(sends(4)).find("elastic averaging"), std::string::npos);
  EXPECT_EQ(reason(sends(1)), "");  // a metric
  const auto through = [](bool is_in_graph) {
    return own_parameters([is_in_graph](Rank& rank, int step) {
      rank.records.push_back({{step, "data"}, Fact{"call", {{"graph", is_in_graph}}}});
    });
  };
  EXPECT_NE(reason(through(true)).find("tensor parallelism"), std::string::npos);
  EXPECT_EQ(reason(through(false)), "");
}

TEST(NotDataParallel, IsUnknownWhereNoBackwardRan) {
  for (const bool any_backward : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      std::erase_if(rank.records, [&](const Record& record) {
        return record.at.phase == "update" || (!any_backward && record.at.phase == "backward");
      });
    const auto judgement = ranks_record_whole_run(run);
    ASSERT_EQ(patterns_of(judgement.findings), "vacuous ");
    EXPECT_EQ(judgement.is_certain, any_backward);
  }
}

}  // namespace
}  // namespace lockstep::recorded
