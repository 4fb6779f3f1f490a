// Several ranks beside one process: what is rounding, and what is not.
#include "harness/invariants/against/against.h"

#include "harness/invariants/canaries/descent.h"
#include "harness/invariants/judge_run.h"
#include "harness/recorded/tolerance.h"
#include "reports/findings/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::recorded {
namespace {

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
  EXPECT_NE(reports::text_of(finding).find("tolerance "), std::string::npos);
}

TEST(OneProcessBesideRanks, DistinguishedFromASumByItsFactor) {
  for (const int world : {2, 4}) {
    auto run = ranks_of(world);
    change(run, "gradients", 0, times(static_cast<float>(world)));
    EXPECT_EQ(first_finding(run, one_process()).pattern, "sum_not_average");
    auto divided = ranks_of(world);
    change(divided, "gradients", 0, times(1 / static_cast<float>(world)));
    EXPECT_EQ(first_finding(divided, one_process()).pattern, "divided_twice");
  }
}

TEST(OneProcessBesideRanks, DistinguishedFromARateThatWasScaledWithTheRanks) {
  const auto one = one_process();
  const auto from = [](const RecordedRun& of, int n) {
    std::vector<float> found;
    int number = 0;
    for (const auto& record : of.ranks[0].records)
      if (const auto* is = digests_in(record, "parameters"); is && number++ == n)
        found = floats_in(is->elements[0]);
    return found;
  };
  for (const auto& [factor, pattern] : {std::pair{2.0F, "update_off_by_world"},
                                        {0.5F, "update_off_by_world"},
                                        {0.0F, "last_steps_value"}}) {
    auto run = ranks_of(2);
    change(run, "parameters", 1, [&, by = factor](Digests& is) {
      const auto before = from(one.run, 0), after = from(one.run, 1);
      std::vector<float> made;
      for (size_t i = 0; i < after.size(); ++i)
        made.push_back(before[i] + by * (after[i] - before[i]));
      is.elements[0] = floats(made);
    });
    const auto finding = first_finding(run, one);
    EXPECT_EQ(finding.pattern, pattern) << factor;
    EXPECT_EQ(finding.where, "step 0, update, w[0]");
  }
}

// Renames a list of one process to that of an optimizer without a wrapper.
void unwrap(RecordedRun& run) {
  for (auto& record : run.ranks.front().records)
    if (auto* is = std::get_if<Digests>(&record.what)) {
      auto list = *is->list;
      list.of = "optimizer 0";
      for (size_t tensor = 0; tensor < list.tensors.size(); ++tensor)
        list.tensors[tensor].name = "parameter " + std::to_string(tensor);
      is->list = std::make_shared<const TensorList>(std::move(list));
    }
}

OneProcess without_wrapper() {
  auto one = one_process();
  unwrap(one.run);
  for (auto& moved : one.moved) unwrap(moved);
  return one;
}

RecordedRun with_owner(RecordedRun run, const std::string& tensor) {
  const auto owned = Json::array({Json::array({"model 0", tensor})});
  const Fact optimizer{"optimizer 0", {{"foreign", 0}, {"owned", owned}}};
  for (auto& rank : run.ranks) rank.records.push_back({{1, "update"}, optimizer});
  return run;
}

TEST(OneProcessBesideRanks, NeedsNoWrapperWhereTheRanksSayWhichTensorsTheirOptimizerHas) {
  const auto one = without_wrapper();
  auto run = with_owner(ranks_of(2, 2e-7F), "w");
  const auto judgement = values_follow_one_process(run, one);
  EXPECT_EQ(judgement.why_not, "");
  EXPECT_TRUE(judgement.findings.empty());
  change(run, "gradients", 0, times(2));
  EXPECT_EQ(first_finding(run, one).pattern, "sum_not_average");
}

TEST(OneProcessBesideRanks, IsNoAnswerWhereNothingCouldBeCompared) {
  const auto one = without_wrapper();
  for (const auto& run : {ranks_of(2), with_owner(ranks_of(2), "another")}) {
    EXPECT_NE(values_follow_one_process(run, one).why_not, "");
    EXPECT_FALSE(compared_what_was_asked(judged(run, &one)));
  }
  EXPECT_TRUE(compared_what_was_asked(judged(with_owner(ranks_of(2), "w"), &one)));
}

TEST(OneProcessBesideRanks, SaysNothingWhereItsMovedRunMovedNothing) {
  auto one = one_process();
  for (auto& moved : one.moved) moved = one.run;
  const auto judgement = values_follow_one_process(ranks_of(2, 2e-7F), one);
  EXPECT_EQ(judgement.findings.at(0).pattern, "moved_nothing");
  EXPECT_FALSE(judgement.is_certain);
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

// Takes the records of the last step from every rank, or their values alone.
RecordedRun without_last_step(RecordedRun run, bool only_values = false) {
  for (auto& rank : run.ranks)
    for (auto record = rank.records.begin(); record != rank.records.end();) {
      auto* digests = std::get_if<Digests>(&record->what);
      if (record->at.step != kTaken - 1 || (only_values && !digests)) {
        ++record;
      } else if (only_values) {
        digests->elements.clear();
        ++record;
      } else {
        record = rank.records.erase(record);
      }
    }
  return run;
}

TEST(OneProcessBesideRanks, MadeAsManyUpdates) {
  const auto run = ranks_of(2), shorter = without_last_step(ranks_of(2));
  auto one = one_process();
  const auto fewer = first_finding(shorter, one);
  EXPECT_EQ(fewer.pattern, "other_number_of_updates");
  EXPECT_EQ(fewer.diagnosis, "the ranks made 2 updates, and one process 3");
  one.run = without_last_step(one.run);
  EXPECT_EQ(first_finding(run, one).diagnosis, "the ranks made 3 updates, and one process 2");
  EXPECT_TRUE(values_follow_one_process(shorter, one).findings.empty());
  one.run.ranks[0].history.ending.kind = Ending::Kind::cut_off;
  EXPECT_FALSE(values_follow_one_process(run, one).is_certain);
}

TEST(OneProcessBesideRanks, MayEndBehindTheUpdatesThatAreCompared) {
  auto one = one_process();
  one.run = without_last_step(one.run);
  const auto judgement = values_follow_one_process(without_last_step(ranks_of(2), true), one);
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_EQ(judgement.remarks.at(0).diagnosis,
            "the ranks made 3 updates, and one process 2; the first 2 have values");
}

TEST(OneProcessBesideRanks, IsNotKnownToBeFollowedWhereAFileTookNoMoreValues) {
  const Fact full{"not recorded", {{"what", "values"}, {"because", "half of the file is full"}}};
  for (auto* which : {"the ranks", "one process", "a moved run"}) {
    auto run = ranks_of(2);
    auto one = one_process();
    auto& is = *which == 'o' ? one.run : *which == 'a' ? one.moved[0] : run;
    is = without_last_step(is, true);
    is.ranks[0].records.push_back({{2, "backward"}, full});
    const auto judgement = values_follow_one_process(run, one);
    EXPECT_FALSE(judgement.is_certain);
    EXPECT_EQ(judgement.findings.at(0).pattern, "values_ended");
    EXPECT_NE(judgement.findings[0].diagnosis.find("the record of " + std::string(which) +
                                                   " holds the values of 2 updates"),
              std::string::npos);
  }
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
  EXPECT_NE(finding.diagnosis.find("the ranks alone drew 4; one process alone drew 5"),
            std::string::npos)
      << finding.diagnosis;
}

// It was interrupted.
TEST(OneProcessBesideRanks, MayEndBeforeTheirLastBatch) {
  auto one = one_process();
  auto& records = one.run.ranks.front().records;
  std::erase_if(records, [](const Record& record) {
    const auto* fact = std::get_if<Fact>(&record.what);
    return (fact && fact->name == "loader 0 exhausted") ||
           (std::holds_alternative<Drawn>(record.what) && record.at.step == kTaken - 1);
  });
  EXPECT_TRUE(batches_are_those_of_one_process(ranks_of(2), one).findings.empty());
}

// Adds a tensor to each list of a run, before its own one or behind it.
RecordedRun with_another(RecordedRun run, bool before) {
  for (auto& rank : run.ranks)
    for (auto& record : rank.records)
      if (auto* is = std::get_if<Digests>(&record.what)) {
        auto list = *is->list;
        const auto value = floats({1, 1});
        list.tensors.insert(before ? list.tensors.begin() : list.tensors.end(),
                            {"b", "float32", {2}});
        is->elements.insert(before ? is->elements.begin() : is->elements.end(), value);
        is->values.insert(before ? is->values.begin() : is->values.end(), {2, 1});
        is->list = std::make_shared<const TensorList>(std::move(list));
      }
  return run;
}

TEST(OneProcessBesideRanks, MayListItsTensorsInAnotherOrder) {
  const OneProcess one{with_another(one_process().run, false),
                       {with_another(one_process().moved.front(), false)}};
  for (const bool before : {false, true}) {
    auto run = with_another(ranks_of(2), before);
    EXPECT_TRUE(values_follow_one_process(run, one).findings.empty()) << before;
    change(run, "gradients", 0, [&](Digests& is) {
      is.elements[before ? 1 : 0] = floats({2, 4, 9});
    });
    EXPECT_FALSE(values_follow_one_process(run, one).findings.empty()) << before;
  }
}

TEST(OneProcessBesideRanks, HasItsInvariantsBehindTheOthers) {
  const auto one = one_process();
  const auto results = judged(ranks_of(2), &one).results;
  EXPECT_EQ(results.size(), invariants().size() + 2);
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
