// Why ranks part from one process, and when a comparison says nothing.
#include "harness/invariants/canaries/descent.h"
#include "harness/recorded/divided.h"
#include "reports/findings/text.h"

#include <gtest/gtest.h>

namespace lockstep::recorded {
namespace {

TEST(OneProcessBesideRanks, IsNotJudgedWhereTheRunsBeginWithOtherParameters) {
  auto run = ranks_of(2);
  change(run, "parameters", 0, times(1.5F));
  const auto of_ranks = values_follow_one_process(run, one_process());
  EXPECT_EQ(of_ranks.findings.at(0).pattern, "begins_with_other_parameters");
  EXPECT_FALSE(of_ranks.is_certain);
  auto unseeded = one_process();
  change(unseeded.moved[0], "parameters", 0, times(1.5F));
  const auto of_one = values_follow_one_process(ranks_of(2), unseeded);
  EXPECT_EQ(of_one.findings.at(0).diagnosis,
            "the two runs of one process begin with other parameters: seed the program");
  EXPECT_FALSE(of_one.is_certain);
}

TEST(OneProcessBesideRanks, IsNotJudgedWhereAToleranceIsNoSmallPartOfTheValues) {
  const auto judgement = values_follow_one_process(ranks_of(2), one_process(0.2F));
  EXPECT_EQ(judgement.findings.at(0).pattern, "tolerance_too_wide");
  EXPECT_FALSE(judgement.is_certain);
}

TEST(OneProcessBesideRanks, RemarksThatItIsNearATolerance) {
  const auto judgement = values_follow_one_process(ranks_of(2, 3e-6F), one_process(1e-6F));
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_EQ(judgement.remarks.at(0).pattern, "near_the_tolerance");
}

TEST(OneProcessBesideRanks, DistinguishedFromLossesThatWereNotDividedByTheirNumber) {
  auto run = ranks_of(2);
  for (auto& rank : run.ranks)
    for (size_t at = 0; at < rank.records.size(); ++at)
      if (auto* fact = std::get_if<Fact>(&rank.records[at].what);
          fact && fact->name == "backward") {
        for (int more = 0; more < 3; ++more)
          rank.records.insert(
              rank.records.begin() + static_cast<std::ptrdiff_t>(at),
              Record{rank.records[at].at,
                     Fact{"backward", {{"model", "model 0"}, {"kind", "no_sync"}}}});
        at += 3;
      }
  change(run, "gradients", 0, times(4));
  const auto finding = first_finding(run, one_process());
  EXPECT_EQ(finding.pattern, "accumulation_not_divided");
  EXPECT_EQ(finding.where, "step 0, backward, w[0]");
}

TEST(OneProcessBesideRanks, DistinguishedFromAnAverageOfAverages) {
  auto run = ranks_of(2);
  const int64_t terms[]{512, 489};
  for (auto& rank : run.ranks)
    rank.records.insert(rank.records.begin() + 1,
                        Record{{0, "backward"}, Fact{"terms", {{"terms", terms[rank.number]}}}});
  change(run, "gradients", 0, [](Digests& is) { is.elements[0] = floats({0.5F, -2.6F, 1.4F}); });
  const auto finding = first_finding(run, one_process());
  EXPECT_EQ(finding.pattern, "average_of_averages");
  EXPECT_NE(reports::text_of(finding).find("mean of means: ranks have 512 and 489 terms"),
            std::string::npos);
}

TEST(OneProcessBesideRanks, DistinguishedFromAnAverageOfAveragesOverTheBackwardsOfAStep) {
  auto run = ranks_of(2);
  for (auto& rank : run.ranks)
    for (const auto terms : {3, 5})
      rank.records.insert(
          rank.records.begin() + 1,
          {Record{{0, "backward"}, Fact{"terms", {{"terms", terms}}}},
           Record{{0, "backward"}, Fact{"backward", {{"model", "model 0"}, {"kind", "no_sync"}}}}});
  change(run, "gradients", 0, [](Digests& is) { is.elements[0] = floats({0.5F, -2.6F, 1.4F}); });
  const auto finding = first_finding(run, one_process());
  EXPECT_EQ(finding.pattern, "average_of_averages");
  EXPECT_NE(
      reports::text_of(finding).find("mean of means: the backwards of rank 0 have 5 and 3 terms"),
      std::string::npos);
}

TEST(OneProcessBesideRanks, DistinguishedFromAnotherGlobalBatch) {
  auto run = ranks_of(2);
  for (auto& rank : run.ranks)
    for (auto& record : rank.records)
      if (auto* is = std::get_if<Drawn>(&record.what)) is->indices = {0, 1, 2, 3};
  change(run, "gradients", 0, [](Digests& is) { is.elements[0] = floats({0.5F, -2.6F, 1.4F}); });
  const auto finding = first_finding(run, one_process());
  EXPECT_EQ(finding.pattern, "other_global_batch");
  for (auto& rank : run.ranks)  // What a recorder says of the batch of step 1.
    rank.records.insert(rank.records.begin() + 6, Record{{0, "update"}, Drawn{"loader 0", {4, 5}}});
  EXPECT_EQ(reports::text_of(first_finding(run, one_process())), reports::text_of(finding));
  EXPECT_NE(reports::text_of(finding).find("the ranks train on 8 samples together and one process"),
            std::string::npos);
  for (auto& rank : run.ranks)  // One of them has a sample.
    for (auto& record : rank.records)
      if (auto* is = std::get_if<Drawn>(&record.what)) is->indices.resize(rank.number == 0 ? 1 : 0);
  EXPECT_EQ(first_finding(run, one_process()).pattern, "other_global_batch");
}

TEST(OneProcessBesideRanks, DistinguishedFromGradientsOverTheBatchOfOneProcess) {
  auto run = ranks_of(2);
  for (auto& record : run.ranks.back().records)
    if (auto* is = std::get_if<Drawn>(&record.what)) is->indices.resize(1);
  change(run, "gradients", 0, times(4.0F / 3));
  EXPECT_EQ(first_finding(run, one_process()).pattern, "off_by_batch_ratio");
}

TEST(OneProcessBesideRanks, HasNoOtherGlobalBatchForWhatEveryRankEvaluates) {
  auto run = ranks_of(2);
  auto one = one_process();
  for (auto* each : {&run, &one.run})
    for (auto& rank : each->ranks)
      rank.records.insert(rank.records.begin() + 1,
                          {Record{{0, "data"}, Fact{"loader 1", {{"length", 5}}}},
                           Record{{0, "data"}, Drawn{"loader 1", {0, 1, 2, 3, 4}}},
                           Record{{0, "data"}, Fact{"loader 1 exhausted", Json::object()}}});
  change(run, "gradients", 0, [](Digests& is) { is.elements[0] = floats({0.5F, -2.6F, 1.4F}); });
  EXPECT_EQ(first_finding(run, one).pattern, "ranks_agree_reference_differs");
}

TEST(OneProcessBesideRanks, DistinguishedFromGradientsThatWereClippedBeforeTheyWereAveraged) {
  auto run = ranks_of(2);
  for (auto& rank : run.ranks)
    for (auto& record : rank.records)
      if (auto* fact = std::get_if<Fact>(&record.what); fact && fact->name == "backward")
        fact->values["changed"] = true;
  change(run, "gradients", 0, [](Digests& is) { is.elements[0] = floats({0.5F, -2.6F, 1.4F}); });
  EXPECT_EQ(first_finding(run, one_process()).pattern, "clipped_before_averaging");
}

// Each rank of two holds every tensor's elements from its own number on: one of three, or two.
TEST(OneProcessBesideRanks, IsFollowedByWhatIsDividedOverTheRanks) {
  auto run = ranks_of(2);
  for (auto& rank : run.ranks) {
    const int begin = rank.number == 0 ? 0 : 1, count = rank.number == 0 ? 1 : 2;
    for (auto& record : rank.records)
      if (auto* is = std::get_if<Digests>(&record.what)) {
        const auto all = floats_in(is->elements[0]);
        auto list = *is->list;
        list.tensors[0].shape = {count};
        is->list = std::make_shared<const TensorList>(std::move(list));
        is->elements[0] = floats({all.begin() + begin, all.begin() + begin + count});
      }
    rank.records.insert(
        rank.records.begin(),
        Record{{0, "construction"},
               Fact{"shards",
                    {{"of", "model 0"},
                     {"tensors", Json::array({Json::array(
                                     {"w", Json::array({3}), Json::array({begin}), false})})}}}});
  }
  EXPECT_EQ(values_follow_one_process(run, one_process()).compared.find("7 points"), 0u);
  EXPECT_TRUE(values_follow_one_process(run, one_process()).findings.empty());
  auto wrong = run;
  change(wrong, "gradients", 1, [](Digests& is) {
    is.elements[0] = floats(std::vector<float>(floats_in(is.elements[0]).size(), 5));
  });
  EXPECT_EQ(first_finding(wrong, one_process()).where, "step 1, backward, w[0]");
  run.ranks[0].records.front() = run.ranks[1].records.front();  // nobody holds the first element
  EXPECT_NE(values_follow_one_process(run, one_process()).why_not, "");
}

TEST(DividedTensors, AreNotPutTogetherWhereNoTensorHasAsManyElements) {
  for (const int64_t rows : {int64_t{1}, int64_t{1} << 40}) {
    const std::vector<int64_t> whole{rows, 1};
    auto part = recorded("gradients", {1});
    auto list = *part.list;
    list.tensors[0].shape = part.elements[0].shape = {1, 1};
    part.list = std::make_shared<const TensorList>(list);
    list.tensors[0].shape = whole;
    const auto is = whole_of({&part}, {{{"w", Shard{whole, {0, 0}}}}}, list);
    EXPECT_EQ(is.has_value(), rows == 1);
  }
}

}  // namespace
}  // namespace lockstep::recorded
