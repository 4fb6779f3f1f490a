// Several ranks beside one process: what is rounding, and what is not.
#include "harness/judge/against.h"

#include "harness/judge/judge_run.h"
#include "harness/judge/tolerance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

namespace lockstep::recorded {
namespace {

constexpr int kTaken = 3;
constexpr float kRate = 0.5F;

TensorValue floats(const std::vector<float>& values) {
  TensorValue value{"float32", {static_cast<int64_t>(values.size())}, {}};
  value.bytes.resize(values.size() * sizeof(float));
  std::memcpy(value.bytes.data(), values.data(), value.bytes.size());
  return value;
}

std::vector<float> floats_in(const TensorValue& value) {
  std::vector<float> values(value.bytes.size() / sizeof(float));
  std::memcpy(values.data(), value.bytes.data(), value.bytes.size());
  return values;
}

Digests recorded(const std::string& role, const std::vector<float>& w) {
  TensorList list{
      .of = "model 0", .role = role, .tensors = {{"w", "float32", {int64_t(w.size())}}}};
  return {std::make_shared<const TensorList>(std::move(list)), {{1, 1}}, {floats(w)}};
}

// A rank that descends along (w - target), whose gradient is off by `noise` of itself.
Rank rank_of(int number, int world, float noise) {
  Rank rank{.is_there = true, .number = number, .world = world};
  const auto add = [&](const Moment& at, auto what) {
    rank.records.push_back({at, std::move(what)});
  };
  std::vector<float> w{1, -2, 0.75F};
  const std::vector<float> target{0.3F, 0.7F, -0.1F};
  add({0, "construction"}, recorded("parameters", w));
  add({0, "data"}, Fact{"loader 0", {{"length", 4 * kTaken}}});
  for (int step = 0; step < kTaken; ++step) {
    Drawn drawn{"loader 0", {}};
    for (int i = number; i < 4; i += world) drawn.indices.push_back(4 * step + i);
    add({step, "data"}, drawn);
    std::vector<float> gradient;
    for (size_t i = 0; i < w.size(); ++i) gradient.push_back((w[i] - target[i]) * (1 + noise));
    add({step, "backward"}, Fact{"backward", {{"model", "model 0"}, {"kind", "synchronised"}}});
    add({step, "backward"}, recorded("gradients", gradient));
    for (size_t i = 0; i < w.size(); ++i) w[i] -= kRate * gradient[i];
    add({step, "update"}, recorded("parameters", w));
  }
  add({kTaken, "data"}, Fact{"loader 0 exhausted", Json::object()});
  return rank;
}

RecordedRun ranks_of(int world, float noise = 0) {
  RecordedRun run;
  for (int rank = 0; rank < world; ++rank) run.ranks.push_back(rank_of(rank, world, noise));
  return run;
}

OneProcess one_process(float moved = 1e-7F) {
  return {ranks_of(1), {ranks_of(1, moved)}};
}

// The n-th record of a role, of every rank.
void change(RecordedRun& run, const std::string& role, int n,
            const std::function<void(Digests&)>& how) {
  for (auto& rank : run.ranks) {
    int number = 0;
    for (auto& record : rank.records)
      if (auto* digests = std::get_if<Digests>(&record.what);
          digests && digests->list->role == role && number++ == n)
        how(*digests);
  }
}

auto times(float factor) {
  return [factor](Digests& is) {
    auto values = floats_in(is.elements[0]);
    for (auto& value : values) value *= factor;
    is.elements[0] = floats(values);
  };
}

Finding first_finding(const RecordedRun& run, const OneProcess& one) {
  const auto findings = values_follow_one_process(run, one).findings;
  return findings.empty() ? Finding{} : findings.front();
}

TEST(OneProcessBesideRanks, IsFollowedAsFarAsRoundingGoes) {
  for (const int world : {1, 2, 4})
    EXPECT_TRUE(values_follow_one_process(ranks_of(world, 2e-7F), one_process()).findings.empty())
        << world;
}

TEST(OneProcessBesideRanks, ShowsTheFirstStepAndTensorThatPart) {
  auto run = ranks_of(2);
  change(run, "gradients", 1, [](Digests& is) {
    auto values = floats_in(is.elements[0]);
    values[1] += 0.01F;
    is.elements[0] = floats(values);
  });
  const auto finding = first_finding(run, one_process());
  EXPECT_EQ(finding.pattern, "one_element_differs");
  EXPECT_EQ(finding.where, "step 1, backward, w[1]");
  EXPECT_NE(finding.text.find("tolerance "), std::string::npos);
}

TEST(OneProcessBesideRanks, ToldFromASumByItsFactor) {
  for (const int world : {2, 4}) {
    auto run = ranks_of(world);
    change(run, "gradients", 0, times(static_cast<float>(world)));
    EXPECT_EQ(first_finding(run, one_process()).pattern, "sum_not_average");
    auto divided = ranks_of(world);
    change(divided, "gradients", 0, times(1 / static_cast<float>(world)));
    EXPECT_EQ(first_finding(divided, one_process()).pattern, "divided_twice");
  }
}

TEST(OneProcessBesideRanks, ToldFromARateThatWasScaledWithTheRanks) {
  auto run = ranks_of(2);
  const auto one = one_process();
  const auto from = [](const RecordedRun& of, int n) {
    std::vector<float> found;
    int number = 0;
    for (const auto& record : of.ranks[0].records)
      if (const auto* is = std::get_if<Digests>(&record.what);
          is && is->list->role == "parameters" && number++ == n)
        found = floats_in(is->elements[0]);
    return found;
  };
  change(run, "parameters", 1, [&](Digests& is) {
    const auto before = from(one.run, 0), after = from(one.run, 1);
    std::vector<float> made;
    for (size_t i = 0; i < after.size(); ++i)
      made.push_back(before[i] + 2 * (after[i] - before[i]));
    is.elements[0] = floats(made);
  });
  const auto finding = first_finding(run, one);
  EXPECT_EQ(finding.pattern, "update_off_by_world");
  EXPECT_EQ(finding.where, "step 0, update, w[0]");
}

TEST(OneProcessBesideRanks, IsNotJudgedWhereTheRunsBeginWithOtherParameters) {
  auto run = ranks_of(2);
  change(run, "parameters", 0, times(1.5F));
  const auto of_ranks = values_follow_one_process(run, one_process());
  EXPECT_EQ(of_ranks.findings.at(0).pattern, "begins_with_other_parameters");
  EXPECT_FALSE(of_ranks.is_certain);
  auto unseeded = one_process();
  change(unseeded.moved[0], "parameters", 0, times(1.5F));
  const auto of_one = values_follow_one_process(ranks_of(2), unseeded);
  EXPECT_EQ(of_one.findings.at(0).text,
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

TEST(OneProcessBesideRanks, ToldFromLossesThatWereNotDividedByTheirNumber) {
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

TEST(OneProcessBesideRanks, ToldFromAMeanOfMeans) {
  auto run = ranks_of(2);
  const int64_t terms[]{512, 489};
  for (auto& rank : run.ranks)
    rank.records.insert(rank.records.begin() + 1,
                        Record{{0, "forward"}, Fact{"terms", {{"terms", terms[rank.number]}}}});
  change(run, "gradients", 0, [](Digests& is) { is.elements[0] = floats({0.5F, -2.6F, 1.4F}); });
  const auto finding = first_finding(run, one_process());
  EXPECT_EQ(finding.pattern, "average_of_averages");
  EXPECT_NE(finding.text.find("mean of means: ranks have 512 and 489 terms"), std::string::npos);
}

TEST(OneProcessBesideRanks, ToldFromGradientsThatWereClippedBeforeTheyWereAveraged) {
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

TEST(OneProcessBesideRanks, ShowsAGradientThatOneSideLacks) {
  auto run = ranks_of(2);
  change(run, "gradients", 0, [](Digests& is) {
    is.values[0] = {0, -1};
    is.elements[0].bytes.clear();
  });
  EXPECT_EQ(first_finding(run, one_process()).pattern, "missing_on_one_side");
}

TEST(OneProcessBesideRanks, IsNotComparedWithinNoSyncNorWithoutValues) {
  auto run = ranks_of(2, 0.5F);
  for (auto& rank : run.ranks)
    for (auto& record : rank.records) {
      if (auto* fact = std::get_if<Fact>(&record.what); fact && fact->name == "backward")
        fact->values["kind"] = "no_sync";
      if (auto* is = std::get_if<Digests>(&record.what); is && is->list->role == "parameters")
        is->elements.clear();
    }
  EXPECT_EQ(values_follow_one_process(run, one_process()).why_not,
            "no point has values both of all ranks and of one process");
}

TEST(OneProcessBesideRanks, LeavesOutTensorsThatHoldNoRealNumbers) {
  auto run = ranks_of(2);
  auto one = one_process();
  for (auto* each : {&run, &one.run, &one.moved[0]})
    change(*each, "gradients", 0, [](Digests& is) {
      auto list = *is.list;
      list.tensors[0].dtype = "complex64";
      is.list = std::make_shared<const TensorList>(list);
      is.elements[0].dtype = "complex64";
    });
  EXPECT_TRUE(values_follow_one_process(run, one).findings.empty());
}

TEST(OneProcessBesideRanks, HasTheirBatches) {
  const auto one = one_process();
  EXPECT_TRUE(batches_are_those_of_one_process(ranks_of(4), one).findings.empty());
  auto run = ranks_of(2);
  for (auto& record : run.ranks[1].records)
    if (auto* drawn = std::get_if<Drawn>(&record.what); drawn && drawn->indices[0] == 5)
      drawn->indices[0] = 4;
  const auto finding = batches_are_those_of_one_process(run, one).findings.at(0);
  EXPECT_EQ(finding.pattern, "other_batches");
  EXPECT_EQ(finding.where, "pass 0 of loader 0, batch 1");
  EXPECT_NE(finding.text.find("the ranks alone drew 4; one process alone drew 5"),
            std::string::npos)
      << finding.text;
}

TEST(OneProcessBesideRanks, HasItsClaimsBehindTheOthers) {
  const auto one = one_process();
  const auto results = judged(ranks_of(2), &one).results;
  EXPECT_EQ(results.size(), claims().size() + claims_against().size());
  EXPECT_EQ(results.back().scenario, "values.follow_one_process");
  EXPECT_EQ(results.back().kind, Result::Kind::pass);
}

TEST(ATolerance, IsWhatATensorMovedByNowOrEarlier) {
  Tolerances tolerances;
  const auto at = [&](int step, float value, float moved) {
    const auto is = recorded("gradients", {value, value}),
               by = recorded("gradients", {moved, value});
    return tolerances.at({step, TensorPoint::Stage::gradients, "model 0"}, is, {&by}).at(0);
  };
  const auto first = at(0, 1, 1.25F);
  EXPECT_EQ(first.moved, 0.25);
  EXPECT_EQ(first.stored, 0x1p-24);
  EXPECT_NEAR(first.typical, 0.25 / std::sqrt(2), 1e-12);
  EXPECT_EQ(first.allowed(), kToleranceFactor * 0.25);
  EXPECT_EQ(at(1, 1, 1).moved, 0.25);
}

}  // namespace
}  // namespace lockstep::recorded
