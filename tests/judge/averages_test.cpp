// Whether updates take averages: what is wrong, what is a remark, and what is right.
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::recorded {
namespace {

void add(RecordedRun& run, const Moment& at, const char* name, const Json& values) {
  for (auto& rank : run.ranks) rank.records.push_back({at, Fact{name, values}});
}

// A run whose ranks had 1, 2 and 3 for each rank's number from 1, and took `taken` times their sum.
RecordedRun averaged(double taken, int world = 2) {
  auto run = right_run(world);
  const double sum = world * (world + 1) / 2.0;
  for (auto& rank : run.ranks) {
    Json own, after;
    for (const double value : {1.0, 2.0, 3.0}) {
      own.push_back(value * (rank.number + 1));
      after.push_back(value * sum * taken);
    }
    for (const auto& [name, values] :
         {std::pair{"own gradients", own}, {"averaged gradients", after}})
      rank.records.push_back(
          {{1, "update"}, Fact{name, {{"of", "model 0"}, {"tensors", {{"w", values}}}}}});
  }
  return run;
}

std::string first_pattern(const Findings& findings) {
  return findings.empty() ? "" : findings.front().pattern;
}

void set_weights(RecordedRun& run, const Json& weight) {
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      nth<Fact>(rank, step, "terms").values["weight"] = weight;
}

TEST(Averages, AreDistinguishedFromSums) {
  for (const int world : {2, 3}) {
    EXPECT_EQ(first_pattern(gradients_are_averages(averaged(1.0, world)).findings),
              "sum_not_average");
    for (const double right : {1.0 / world, 0.1})
      EXPECT_EQ(first_pattern(gradients_are_averages(averaged(right, world)).findings), "");
  }
}

TEST(Averages, AreSumsOfLossesThatTheProgramDivides) {
  auto divided = averaged(1.0), unknown = averaged(1.0);
  set_weights(divided, 0.5);
  set_weights(unknown, nullptr);
  const auto judgement = gradients_are_averages(divided);
  EXPECT_EQ(first_pattern(judgement.findings) + first_pattern(judgement.remarks), "");
  EXPECT_EQ(first_pattern(gradients_are_averages(unknown).findings), "");
  EXPECT_EQ(first_pattern(gradients_are_averages(unknown).remarks), "sum_not_average");
}

TEST(Averages, MayBeSummedOnceMore) {
  const auto plant = [](double factor, int64_t reduced) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      auto taken = nth<Digests>(rank, 1, "gradients");
      auto list = *taken.list;
      list.role = "taken";
      taken.list = std::make_shared<const TensorList>(list);
      for (auto& value : taken.values) value.norm *= factor;
      const auto update = std::find_if(
          rank.records.begin(), rank.records.end(),
          [](const auto& record) { return record.at.step == 1 && record.at.phase == "update"; });
      rank.records.insert(update, {{1, "update"}, taken});
      rank.history.events.push_back({{1, "backward"},
                                     Collective{.op = "allreduce",
                                                .group = "world",
                                                .dtype = "float32",
                                                .sequence = 99,
                                                .elements = reduced,
                                                .done = true}});
    }
    return first_pattern(gradients_are_averages(run).findings);
  };
  EXPECT_EQ(plant(2, 4), "summed_again");
  EXPECT_EQ(plant(1, 4), "");    // averaged once more
  EXPECT_EQ(plant(0.5, 4), "");  // clipped, say
  EXPECT_EQ(plant(2, 1), "");    // the log's number was reduced, and gradients scaled on purpose
}

// Repeats in a step what averaged() recorded last.
void average_again(RecordedRun& run, int step) {
  for (auto& rank : run.ranks)
    for (int added = 0; added < 2; ++added) {
      auto record = rank.records[rank.records.size() - 2];
      record.at.step = step;
      rank.records.push_back(std::move(record));
    }
}

// Clipping may hit the factor once.
TEST(Averages, ThatAreDividedTwiceAreFoundOnceTwoOfThemAre) {
  auto run = averaged(0.25);
  EXPECT_EQ(first_pattern(gradients_are_averages(run).findings), "");
  average_again(run, 2);
  EXPECT_EQ(first_pattern(gradients_are_averages(run).findings), "divided_twice");
}

TEST(Averages, AreDividedByTheNumberOfRanks) {
  for (const int divisor : {2, 3, 4}) {
    auto run = averaged(1.0 / divisor, 3);
    for (const int step : {2, 3}) average_again(run, step);
    EXPECT_EQ(first_pattern(gradients_are_averages(run).findings),
              divisor == 3 ? "" : "another_divisor");
  }
}

// Which makes up for the larger batch.
TEST(Averages, AreDividedByTheRootOfTheNumberOfRanksOnPurpose) {
  for (const int divisor : {2, 3}) {
    auto run = averaged(1.0 / divisor, 4);
    for (const int step : {2, 3}) average_again(run, step);
    const auto judgement = gradients_are_averages(run);
    EXPECT_EQ(first_pattern(judgement.findings), divisor == 2 ? "" : "another_divisor");
    EXPECT_EQ(first_pattern(judgement.remarks), divisor == 2 ? "another_divisor" : "");
  }
}

TEST(Averages, OfUnlikeTermsAreRemarkedOnWhereTheyAreAHabit) {
  const auto plant = [](int unlike, double weight) {
    auto run = right_run();
    for (int step = 0; step < unlike; ++step) {
      auto& values = nth<Fact>(run.ranks[1], step, "terms").values;
      values["terms"] = 3;
      values["weight"] = weight;
    }
    return first_pattern(gradients_are_averages(run).remarks);
  };
  EXPECT_EQ(plant(kSteps, 1), "average_of_averages");
  EXPECT_EQ(plant(1, 1), "");          // a batch at the end of a pass
  EXPECT_EQ(plant(kSteps, 0.75), "");  // weighted by its number of terms
}

TEST(Averages, OfLossesThatOneRankMultipliesAreRemarkedOn) {
  const auto plant = [](const Json& of_one, const Json& of_other) {
    auto run = right_run();
    for (int step = 0; step < kSteps; ++step)
      for (auto& rank : run.ranks) {
        const auto& weights = rank.number == 0 ? of_one : of_other;
        const auto at =
            std::find_if(rank.records.begin(), rank.records.end(), [&](const Record& record) {
              const auto* fact = fact_in(record, "terms");
              return fact && record.at.step == step;
            });
        auto second = *at;
        std::get<Fact>(at->what).values["weight"] = weights[0];
        std::get<Fact>(second.what).values["weight"] = weights[1];
        rank.records.insert(at, second);
      }
    return first_pattern(gradients_are_averages(run).remarks);
  };
  EXPECT_EQ(plant({0.3, 0.7}, {0.9, 0.1}), "");  // each mixes two losses of its own batch
  EXPECT_EQ(plant({0.3, 0.7}, {0.3, 0.7}), "");
  EXPECT_EQ(plant({0.5, 0.5}, {1, 1}), "weighted_by_rank");
}

TEST(Averages, ThatWereComparedAreSaid) {
  EXPECT_EQ(gradients_are_averages(right_run()).compared,
            "terms of " + std::to_string(kSteps) + " losses");
  EXPECT_EQ(gradients_are_averages(averaged(0.5)).compared,
            "1 average · terms of " + std::to_string(kSteps) + " losses");
}

TEST(Averages, AreOfGradientsThatWereUnscaledBeforeTheyWereClipped) {
  const auto plant = [](double scale, double most, double norm) {
    auto run = right_run();
    add(run, {1, "backward"}, "clip",
        {{"function", "clip_grad_norm_"}, {"scale", scale}, {"most", most}, {"norm", norm}});
    return first_pattern(gradients_are_averages(run).findings);
  };
  EXPECT_EQ(plant(1024, 1, 5000), "clipped_while_scaled");
  EXPECT_EQ(plant(1, 1, 5000), "");
  EXPECT_EQ(plant(1024, 1024, 5000), "");  // the program multiplied the limit
  EXPECT_EQ(plant(1024, 1, 0.5), "");      // nothing was clipped
}

TEST(Averages, OfAGroupOfOneRankAreNone) {
  const auto plant = [](bool begins_alike, bool splits) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      nth<Fact>(rank, 0, "model 0")
          .values.update(
              {{"wrapper", "DistributedDataParallel"}, {"ranks", Json::array({rank.number})}});
      if (!begins_alike)
        for (int n = 0; n <= kSteps; ++n)
          nth<Digests>(rank, n, "parameters").values[0].bits = 50 + uint64_t(rank.number);
      if (!splits)
        std::erase_if(rank.records, [](const Record& record) {
          const auto* fact = std::get_if<Fact>(&record.what);
          return fact && fact->name.starts_with("loader ");
        });
    }
    const auto results = judged(run).results;
    const auto found = std::find_if(results.begin(), results.end(), [](const Result& result) {
      return result.scenario == "forward.runs_through_the_wrapper";
    });
    return first_pattern(found->kind == Result::Kind::fail ? found->worst.findings : Findings());
  };
  EXPECT_EQ(plant(true, false), "group_of_one");
  EXPECT_EQ(plant(false, true), "group_of_one");
  EXPECT_EQ(plant(false, false), "");  // an ensemble
}

TEST(Buffers, ThatEachRankWritesAreRemarkedOn) {
  for (const uint64_t of_one : {7u, 8u}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      auto written = digests("written", {{7, 1}});
      if (rank.number == 1) written.values[0].bits = of_one;
      rank.records.push_back({{1, "forward"}, written});
    }
    EXPECT_EQ(first_pattern(buffers_follow_rank_zero(run).remarks),
              of_one == 7 ? "" : "written_on_each_rank");
  }
}

TEST(Streams, OfWorkersMustDifferOverRanksAndPasses) {
  const auto plant = [](std::vector<std::vector<const char*>> by_rank) {
    auto run = right_run();
    for (auto& rank : run.ranks)
      for (const char* state : by_rank[size_t(rank.number)])
        rank.records.push_back(
            {{1, "data"},
             Fact{"worker streams",
                  {{"loader", "loader 0"}, {"streams", {{"numpy", Json::array({state})}}}}}});
    std::string patterns;
    for (const auto& remark : random_streams_differ(run).remarks) patterns += remark.pattern + " ";
    return patterns;
  };
  EXPECT_EQ(plant({{"1", "2"}, {"3", "4"}}), "");
  EXPECT_EQ(plant({{"1", "2"}, {"1", "2"}}), "workers_seeded_alike ");
  EXPECT_EQ(plant({{"1", "1"}, {"2", "2"}}), "workers_restarted ");
  EXPECT_EQ(plant({{"1", "1"}, {"1", "1"}}), "workers_seeded_alike workers_restarted ");
}

// Two ranks that cut samples into batches: of `passes` orders, each rank's part of its own or of
// one.
TEST(Inputs, ThatSeveralRanksTakeAreFound) {
  const auto plant = [](int passes, int shift, int64_t count, int64_t shared = 0) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      std::erase_if(rank.records, [](const Record& record) {
        const auto* fact = std::get_if<Fact>(&record.what);
        return (fact && fact->name.starts_with("loader ")) ||
               std::holds_alternative<Drawn>(record.what);
      });
      for (int pass = 0; pass < passes; ++pass) {
        Json rows = Json::array();
        for (int64_t at = 0; at < count; ++at)
          rows.push_back(std::to_string(at < shared ? 1000 + at
                                                    : (2 * at + rank.number * (1 + shift) +
                                                       6 * pass * (1 + rank.number * shift)) %
                                                          64));
        rank.records.push_back(
            {{0, "forward"}, Fact{"inputs", {{"model", "model 0"}, {"rows", rows}}}});
      }
    }
    const auto judgement = passes_are_partitions(run);
    return first_pattern(judgement.findings) + "/" + first_pattern(judgement.remarks);
  };
  EXPECT_EQ(plant(3, 0, 32), "/");
  EXPECT_EQ(plant(1, 1, 32), "/shared_inputs");
  EXPECT_EQ(plant(3, 0, 12), "/");  // too few to tell
  EXPECT_EQ(plant(1, 0, 32, 7), "/");
  EXPECT_EQ(plant(1, 0, 32, 8), "/shared_inputs");
}

}  // namespace
}  // namespace lockstep::recorded
