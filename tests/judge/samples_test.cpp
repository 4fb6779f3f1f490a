// Checks the samples that ranks draw, receive and lose: the same samples, other datasets, padding.
#include "harness/invariants/canaries/right_run.h"
#include "harness/invariants/judge_run.h"
#include "reports/findings/text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::recorded {
namespace {

TEST(Samples, FindRanksThatDrawTheSameSamplesFromASamplerThatKnowsNoRanks) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    for (int pass = 0; pass < 2; ++pass) {
      auto& values = nth<Fact>(rank, pass, "loader 0").values;
      values.erase("replicas");
      values["fingerprint"] = "f";
      values["length"] = 1000;
    }
    for (int step = 0; step < kSteps; ++step)
      nth<Drawn>(rank, step, "loader 0") = nth<Drawn>(run.ranks[0], step, "loader 0");
  }
  const auto finding = passes_are_partitions(run).findings.at(0);
  EXPECT_EQ(finding.pattern, "same_batches");
  EXPECT_EQ(finding.where, "pass 0 of loader 0, batch 0");
}

// Repeated augmentation deals each sample to ranks side by side: to all of them in one order where
// the number of ranks divides that of the times.
TEST(Samples, FindRepeatedAugmentationThatKnowsNoRanks) {
  for (const int times : {2, 3}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      for (int pass = 0; pass < 2; ++pass)
        nth<Fact>(rank, pass, "loader 0").values.update({{"repeats", times}, {"length", 1000}});
      for (int step = 0; step < kSteps; ++step)
        nth<Drawn>(rank, step, "loader 0") = nth<Drawn>(run.ranks[0], step, "loader 0");
    }
    const auto findings = passes_are_partitions(run).findings;
    ASSERT_EQ(findings.size(), times == 2 ? 0 : 1);
    if (times == 3) EXPECT_EQ(findings.front().pattern, "same_batches");
  }
}

TEST(Samples, FindPartsOfADatasetWhoseContentIsUnknown) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int pass = 0; pass < 2; ++pass)
      nth<Fact>(rank, pass, "loader 0")
          .values.update({{"dataset", "Subset"}, {"subset", std::to_string(rank.number)}});
  EXPECT_EQ(datasets_are_the_same(run).findings.at(0).pattern, "other_content");
}

void set_losses(RecordedRun& run, int differ_by) {
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      nth<Fact>(rank, step, "backward").values["loss"] = 1.5 - 0.1 * step + differ_by * rank.number;
}

TEST(Samples, FindThatAllLossesAreTheSameWhateverFeedsTheRanks) {
  auto run = right_run();
  set_losses(run, 1);
  EXPECT_TRUE(passes_are_partitions(run).findings.empty());
  set_losses(run, 0);
  EXPECT_EQ(passes_are_partitions(run).findings.at(0).pattern, "same_losses");
  auto bare = run;  // in which no wrapper shows what the forward sends
  for (auto& rank : bare.ranks)
    for (int step = 0; step < kSteps; ++step)
      nth<Fact>(rank, step, "backward").values["kind"] = "bare";
  EXPECT_TRUE(passes_are_partitions(bare).findings.empty());
  // A loss over what a collective gathered is the same on all ranks rightly.
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      rank.history.events.push_back(
          {{step, "forward"}, Collective{.op = "allgather", .group = "world", .elements = 64}});
  EXPECT_TRUE(passes_are_partitions(run).findings.empty());
}

TEST(Samples, FindSamplesThatNoPassDraws) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int pass = 0; pass < 2; ++pass) {
      auto& values = nth<Fact>(rank, pass, "loader 0").values;
      values["length"] = kLength + 1;
      values["drops"] = true;
      values["shuffle"] = false;
      values["of"] = "dataset 0";
    }
  EXPECT_EQ(passes_are_partitions(run).findings.at(0).pattern, "never_drawn");
  for (auto& rank : run.ranks) {  // a loader of its own for each pass
    nth<Fact>(rank, 1, "loader 0").name = "loader 2";
    for (int step = 2; step < kSteps; ++step) nth<Drawn>(rank, 2, "loader 0").name = "loader 2";
    nth<Fact>(rank, 1, "loader 0 exhausted").name = "loader 2 exhausted";
  }
  EXPECT_EQ(passes_are_partitions(run).findings.at(0).pattern, "never_drawn");
}

TEST(Samples, CompareAPassWithTheLastWholeOneOfItsLoader) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    for (int step = 0; step < 2; ++step)
      nth<Drawn>(rank, 2 + step, "loader 0") = nth<Drawn>(rank, step, "loader 0");
    for (int pass = 0; pass < 2; ++pass)
      nth<Fact>(rank, pass, "loader 0").values["sampler_epoch"] = 0;
    // A batch that was only looked at, between the two.
    const auto second = std::find_if(rank.records.begin(), rank.records.end(), [](const Record& r) {
      const auto* fact = fact_in(r, "loader 0");
      return fact && fact->whole("epoch") == 1;
    });
    const Fact peek{"loader 0", {{"length", kLength}, {"replicas", 2}, {"shuffle", true}}};
    rank.records.insert(second, {{2, "data"}, peek});
  }
  const auto finding = orders_change(run).findings.at(0);
  EXPECT_EQ(finding.pattern, "epoch_ignored");
  EXPECT_NE(reports::text_of(finding).find("rank 0 drew 8 samples: 0, 2, 4"), std::string::npos);
}

TEST(Samples, CompareWhatWasDrawnOfAPassThatABreakEnds) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    nth<Drawn>(rank, 2, "loader 0") = nth<Drawn>(rank, 0, "loader 0");
    nth<Fact>(rank, 1, "loader 0").values["sampler_epoch"] = 0;
    std::erase_if(rank.records, [](const Record& record) {
      return record.at.step == 3 && record.at.phase == "data";
    });
  }
  EXPECT_EQ(orders_change(run).findings.at(0).pattern, "epoch_ignored");
  for (auto& rank : run.ranks) nth<Drawn>(rank, 2, "loader 0").indices.pop_back();
  EXPECT_TRUE(orders_change(run).findings.empty());  // six samples may be equal by chance
}

TEST(Samples, OfAnEvaluationAreNotThoseOfATrainingThatFeedsItself) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    std::erase_if(rank.records, [](const Record& record) { return record.at.phase == "data"; });
    const auto second = std::find_if(rank.records.begin(), rank.records.end(),
                                     [](const Record& record) { return record.at.step == 1; });
    const Moment at{1, "data"};
    rank.records.insert(second, {{at, Fact{"loader 1", {{"length", 8}, {"fingerprint", "ab"}}}},
                                 {at, Drawn{"loader 1", {0, 1, 2, 3}}},
                                 {at, Drawn{"loader 1", {4, 5, 6, 7}}},
                                 {at, Fact{"loader 1 exhausted", Json::object()}}});
  }
  EXPECT_TRUE(passes_are_partitions(run).findings.empty());
}

// Each epoch has a loader of its own, and on rank 0 alone there is one for an evaluation in
// between.
TEST(Samples, AreThoseOfOneLoaderWhereRankZeroHasMoreOfThem) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    std::string name = "loader 0";
    for (auto& record : rank.records) {
      auto* fact = std::get_if<Fact>(&record.what);
      if (fact && fact->name == "loader 0" && fact->whole("epoch") == 1)
        name = rank.number == 0 ? "loader 3" : "loader 2";
      auto* drawn = std::get_if<Drawn>(&record.what);
      if (drawn && drawn->name == "loader 0") drawn->name = name;
      if (fact && fact->name == "loader 0") fact->values["fingerprint"] = "ab";
      if (fact && fact->name.starts_with("loader 0")) fact->name.replace(0, 8, name);
    }
  }
  auto& records = run.ranks[0].records;
  const auto second = std::find_if(records.begin(), records.end(),
                                   [](const Record& record) { return record.at.step == 2; });
  const Moment at{2, "data"};
  records.insert(second, {{at, Fact{"loader 2", {{"length", 4}}}},
                          {at, Drawn{"loader 2", {0, 1, 2, 3}}},
                          {at, Fact{"loader 2 exhausted", Json::object()}}});
  EXPECT_TRUE(datasets_are_the_same(run).findings.empty());
  EXPECT_EQ(datasets_are_the_same(run).compared, "3 passes");
  EXPECT_EQ(orders_change(run).compared, "1 pair of passes");
  nth<Fact>(run.ranks[1], 0, "loader 2").values["sampler_epoch"] = 7;
  EXPECT_EQ(datasets_are_the_same(run).findings.at(0).pattern, "split_differently");
}

TEST(Samples, AreTrainedOnWhereAnUpdateFollowsWithoutAnyWrapper) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    std::erase_if(rank.records,
                  [](const Record& record) { return fact_in(record, "backward") != nullptr; });
    nth<Drawn>(rank, 1, "loader 0").indices.push_back(0);  // padding
    rank.history.events.push_back(
        {{3, "update"}, Collective{.op = "allreduce", .group = "world", .elements = 2}});
  }
  EXPECT_TRUE(evaluations_repeat_no_sample(run).findings.empty());
  EXPECT_EQ(orders_change(run).compared, "1 pair of passes");
}

TEST(Samples, CallAPassWholeThatDrewAsManyAsItsLoaderHas) {
  for (const bool counts_batches : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      std::erase_if(rank.records, [](const Record& record) {
        return fact_in(record, "loader 0 exhausted") != nullptr;
      });
      for (int pass = 0; pass < 2; ++pass) {
        auto& values = nth<Fact>(rank, pass, "loader 0").values;
        values["length"] = 8 * static_cast<int64_t>(run.ranks.size());
        if (counts_batches) values["batches"] = 2;
      }
    }
    EXPECT_EQ(orders_change(run).compared, "1 pair of passes") << counts_batches;
  }
}

TEST(Samples, FindDatasetsOfOneLengthAndOtherContent) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    const auto own = std::to_string(rank.number);
    auto& pass = nth<Fact>(rank, 0, "loader 0");
    pass.values["fingerprint"] = own;
    const Fact batch{"batch", {{"loader", "loader 0"}, {"row", Json::array({rank.number, own})}}};
    const auto begin = std::find_if(rank.records.begin(), rank.records.end(), [&](const auto& is) {
      return std::get_if<Fact>(&is.what) == &pass;
    });
    rank.records.insert(begin + 1, {begin->at, batch});
  }
  // Each rank may have data of its own.
  EXPECT_TRUE(datasets_are_the_same(run).findings.empty());
  EXPECT_EQ(datasets_are_the_same(run).remarks.at(0).pattern, "other_content");
  auto numbered_otherwise = run;
  for (auto& rank : numbered_otherwise.ranks) nth<Fact>(rank, 0, "batch").values["row"][1] = "one";
  for (auto& rank : run.ranks) nth<Fact>(rank, 0, "loader 0").values["dataset"] = "Subset";
  for (const auto& each : {numbered_otherwise, run})
    EXPECT_EQ(datasets_are_the_same(each).findings.at(0).pattern, "other_content");
}

TEST(Samples, CallPaddingARemarkUnlessAReductionCountsIt) {
  auto run = right_run();
  nth<Drawn>(run.ranks[1], 0, "loader 1").indices.push_back(0);
  EXPECT_TRUE(evaluations_repeat_no_sample(run).findings.empty());
  const auto reduce_in = [&](int step) {
    for (auto& rank : run.ranks)
      rank.history.events.push_back(
          {{step, "data"}, Collective{.op = "allreduce", .group = "world", .elements = 2}});
  };
  for (int step = 0; step < kSteps; ++step) reduce_in(step);  // for the training
  EXPECT_TRUE(evaluations_repeat_no_sample(run).findings.empty());
  EXPECT_EQ(evaluations_repeat_no_sample(run).remarks.at(0).pattern, "evaluation_padded");
  reduce_in(0);
  EXPECT_EQ(evaluations_repeat_no_sample(run).findings.at(0).pattern, "evaluation_padded");
}

// Nothing says that such a sampler splits.
TEST(Samples, AreNotPaddedWhereEveryRankEvaluatesAllOrMostOfThem) {
  for (const int length : {3, 4}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      nth<Fact>(rank, 0, "loader 1").values = {{"length", length}};
      const int64_t from = length == 3 ? 0 : rank.number;
      nth<Drawn>(rank, 0, "loader 1").indices = {from, from + 1, from + 2};
    }
    const auto judgement = evaluations_repeat_no_sample(run);
    EXPECT_NE(judgement.why_not, "") << length;
    EXPECT_TRUE(judgement.remarks.empty()) << length;
  }
}

TEST(Samples, MayBeThePaddingOfADistributedSampler) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    for (int pass = 0; pass < 2; ++pass) nth<Fact>(rank, pass, "loader 0").values["length"] = 15;
    for (int step = 0; step < kSteps; ++step)
      for (auto& index : nth<Drawn>(rank, step, "loader 0").indices) index %= 15;
  }
  EXPECT_TRUE(passes_are_partitions(run).findings.empty());
}

TEST(Samples, ThatNoPaddingRepeatsAreCounted) {
  auto run = right_run();
  nth<Drawn>(run.ranks[1], 1, "loader 0").indices[0] = 0;
  EXPECT_EQ(passes_are_partitions(run).findings.at(0).diagnosis,
            "pass 0 of loader 0: 1 sample of 16 drawn more than once, where padding takes 0: 0");
}

}  // namespace
}  // namespace lockstep::recorded
