// Each claim passes on a right run and finds the mistake that is planted in it.
#include "harness/judge/claims.h"

#include "harness/judge/explanations.h"
#include "harness/judge/judge_run.h"
#include "tests/judge/right_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

namespace lockstep::recorded {
namespace {

// The n-th record of a rank that holds T and, of digests, has the role.
template <class T>
T& nth(Rank& rank, int n, const std::string& name) {
  for (auto& record : rank.records)
    if (auto* is = std::get_if<T>(&record.what)) {
      std::string is_name;
      if constexpr (std::is_same_v<T, Digests>)
        is_name = is->list->role;
      else
        is_name = is->name;
      if (is_name == name && n-- == 0) return *is;
    }
  throw std::logic_error("no such record: " + name);
}

struct Mistake {
  const char *claim, *pattern;
  std::function<void(RecordedRun&)> plant;
};

const std::vector<Mistake>& mistakes() {
  static const auto kAll = [] {
    const auto first = [](auto change) {
      return [change](RecordedRun& run) { change(run.ranks[1]); };
    };
    return std::vector<Mistake>{
        {"run.is_recorded_whole", "threw", first([](Rank& rank) {
           rank.history.ending = {Ending::Kind::threw, "no"};
         })},
        {"run.is_recorded_whole", "lost",
         [](RecordedRun& run) {
           run.ranks[1].history.ending = {Ending::Kind::cut_off, ""};
           run.ranks[0].history.ending = {Ending::Kind::threw, "connection closed"};
           std::get<Collective>(run.ranks[0].history.events.back().what).done = false;
         }},
        {"run.is_recorded_whole", "trains_alone", first([](Rank& rank) {
           nth<Fact>(rank, 0, "process group").values = {{"rank", 0}, {"world", 1}};
         })},
        {"run.has_one_length", "stopped_early",
         first([](Rank& rank) { rank.records.resize(rank.records.size() - 4); })},
        {"collectives.have_one_order", "mismatched_collectives", first([](Rank& rank) {
           std::get<Collective>(rank.history.events[2].what).op = "barrier";
         })},
        {"collectives.have_one_order", "missing_collective",
         first([](Rank& rank) { rank.history.events.pop_back(); })},
        {"collectives.have_one_order", "no_collective",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks) rank.history.events.clear();
         }},
        {"data.is_one_dataset", "other_length",
         first([](Rank& rank) { nth<Fact>(rank, 0, "loader 0").values["length"] = 20; })},
        {"data.is_one_dataset", "split_differently",
         first([](Rank& rank) { nth<Fact>(rank, 0, "loader 0").values["seed"] = 1; })},
        {"data.is_partitioned", "not_a_partition",
         first([](Rank& rank) { nth<Drawn>(rank, 1, "loader 0").indices[0] = 0; })},
        {"data.is_partitioned", "out_of_range",
         first([](Rank& rank) { nth<Drawn>(rank, 1, "loader 0").indices[0] = kLength; })},
        {"data.is_partitioned", "every_rank_draws_all",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks)
             for (int pass = 0; pass < 2; ++pass) {
               auto& values = nth<Fact>(rank, pass, "loader 0").values;
               values.erase("replicas");
               values["fingerprint"] = "f";
               for (int64_t i = 0; i < kLength; ++i)
                 nth<Drawn>(rank, 2 * pass, "loader 0").indices.push_back(i);
             }
         }},
        {"data.order_changes", "epoch_ignored",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks)
             for (int step = 0; step < 2; ++step)
               nth<Drawn>(rank, 2 + step, "loader 0") = nth<Drawn>(rank, step, "loader 0");
         }},
        {"data.evaluates_each_sample_once", "evaluation_padded",
         first([](Rank& rank) { nth<Drawn>(rank, 0, "loader 1").indices.push_back(0); })},
        {"random.streams_differ", "same_random_stream",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks)
             for (int step = 0; step < kSteps; ++step)
               nth<Digests>(rank, step, "random").values[0].bits = uint64_t(step);
         }},
        {"forward.runs_through_the_wrapper", "bare_forward",
         first([](Rank& rank) { nth<Fact>(rank, 1, "backward").values["kind"] = "bare"; })},
        {"forward.runs_through_the_wrapper", "update_not_averaged", first([](Rank& rank) {
           nth<Fact>(rank, 0, "model 0").values["wrapped"] = true;
           nth<Fact>(rank, 2, "backward").values["kind"] = "local";
         })},
        {"forward.runs_through_the_wrapper", "update_not_averaged",
         first([](Rank& rank) { nth<Fact>(rank, 3, "backward").values["kind"] = "no_sync"; })},
        {"gradients.are_the_same", "no_two_ranks_agree",
         first([](Rank& rank) { nth<Digests>(rank, 2, "gradients").values[1].bits = 77; })},
        {"gradients.are_the_same", "synchronised_on_some_ranks",
         first([](Rank& rank) { nth<Fact>(rank, 1, "backward").values["kind"] = "no_sync"; })},
        {"gradients.differ_in_no_sync", "same_data",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks) nth<Fact>(rank, 1, "backward").values["kind"] = "no_sync";
         }},
        {"gradients.reach_every_parameter", "never_a_gradient",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks)
             for (int step = 0; step < kSteps; ++step)
               nth<Digests>(rank, step, "gradients").values[1] = {0, -1};
         }},
        {"optimizer.owns_parameters_once", "two_optimizers",
         first([](Rank& rank) { nth<Fact>(rank, 1, "optimizer 0").name = "optimizer 1"; })},
        {"optimizer.owns_parameters_once", "steps_other_tensors",
         [](RecordedRun& run) {
           for (auto& rank : run.ranks)
             for (int step = 0; step < kSteps; ++step) {
               auto& values = nth<Fact>(rank, step, "optimizer 0").values;
               values["owned"] = Json::array();
               values["foreign"] = 2;
             }
         }},
        {"optimizer.has_one_setting", "no_two_ranks_agree", first([](Rank& rank) {
           nth<Fact>(rank, 2, "optimizer 0").values["groups"][0]["lr"] = 0.25;
         })},
        {"optimizer.has_one_state", "no_two_ranks_agree", first([](Rank& rank) {
           nth<Digests>(rank, 3, "state").values[0] = {99, 2};
         })},
        {"parameters.are_the_same", "no_two_ranks_agree",
         first([](Rank& rank) { nth<Digests>(rank, 0, "parameters").values[0].bits = 99; })},
        {"parameters.are_the_same", "other_shape", first([](Rank& rank) {
           nth<Digests>(rank, 2, "parameters") = digests("parameters", {{12, 1}});
         })},
        {"parameters.are_the_same", "changed_on_some_ranks", first([](Rank& rank) {
           rank.records.push_back({{1, "forward"}, digests("parameters", {{5, 1}, {5, 1}})});
           nth<Digests>(rank, 2, "parameters").values[0] = {6, 1};  // the update starts from them
         })},
        {"buffers.follow_rank_zero", "no_two_ranks_agree",
         first([](Rank& rank) { nth<Digests>(rank, 1, "buffers").values[0].bits = 99; })},
        {"values.stay_finite", "one_rank_not_finite", first([](Rank& rank) {
           nth<Digests>(rank, 1, "parameters").values[0].norm =
               std::numeric_limits<double>::quiet_NaN();
         })},
    };
  }();
  return kAll;
}

const Claim& claim_named(std::string_view name) {
  for (const auto& claim : claims())
    if (claim.name == name) return claim;
  throw std::logic_error("no such claim");
}

TEST(Claims, HoldForARightRun) {
  const auto run = right_run();
  for (const auto& claim : claims()) {
    const auto judgement = claim.judge(run);
    EXPECT_TRUE(judgement.findings.empty())
        << claim.name << ": " << judgement.findings.front().text;
    EXPECT_EQ(judgement.why_not.empty(), claim.name != "gradients.differ_in_no_sync") << claim.name;
  }
}

TEST(Claims, HoldOrAreNotJudgedForOneRankAlone) {
  auto run = right_run(1);
  for (const auto& claim : claims()) EXPECT_TRUE(claim.judge(run).findings.empty()) << claim.name;
}

TEST(Claims, EachFindsTheMistakeThatIsPlanted) {
  std::set<std::string_view> found;
  for (const auto& mistake : mistakes()) {
    auto run = right_run();
    mistake.plant(run);
    auto judgement = claim_named(mistake.claim).judge(run);
    judgement.findings += judgement.remarks;
    ASSERT_FALSE(judgement.findings.empty()) << mistake.claim << " " << mistake.pattern;
    found.insert(mistake.claim);
    EXPECT_EQ(judgement.findings.front().pattern, mistake.pattern) << mistake.claim;
    EXPECT_NE(judgement.findings.front().text, "") << mistake.claim;
  }
  EXPECT_EQ(found.size(), claims().size());
}

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

void average_by_hand(RecordedRun& run) {
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      rank.history.events.push_back({{step, "backward"},
                                     Collective{.op = "allreduce",
                                                .group = "world",
                                                .dtype = "float32",
                                                .sequence = step,
                                                .elements = 4,
                                                .done = true}});
}

TEST(Claims, FindThatNothingWasWrappedAndNothingElseAveraged) {
  auto run = right_run();
  unwrap(run);
  const auto findings = forwards_run_through_the_wrapper(run).findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings.front().pattern, "nobody_averaged");
  EXPECT_EQ(findings.front().text.find("no model was wrapped in DistributedDataParallel, and "
                                       "nothing else averaged gradients"),
            0u);
}

TEST(Claims, CompareParametersThatAreAveragedByHand) {
  auto run = right_run();
  unwrap(run);
  average_by_hand(run);
  EXPECT_TRUE(forwards_run_through_the_wrapper(run).findings.empty());
  EXPECT_EQ(parameters_are_the_same(run).compared, "5 times");
  nth<Digests>(run.ranks[1], 2, "parameters").values[1].bits = 8;
  const auto judgement = parameters_are_the_same(run);
  ASSERT_FALSE(judgement.findings.empty());
  EXPECT_EQ(judgement.findings.front().where, "step 1, update, w1");
}

TEST(Claims, AreNoPassWhereNoParametersWereCompared) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    std::erase_if(rank.records, [](const Record& record) {
      const auto* is = std::get_if<Digests>(&record.what);
      return is && is->list->role == "parameters";
    });
  for (const auto& result : judged(run).results)
    if (result.scenario == "parameters.are_the_same") {
      EXPECT_EQ(result.kind, Result::Kind::inconclusive);
    }
}

TEST(Claims, DoNotCompareWhatIsDividedOverTheRanks) {
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
  EXPECT_FALSE(compared_parameters(judged(run)));
  nth<Fact>(run.ranks[1], 0, "shards").values["tensors"][0][2] = Json::array({0});
  EXPECT_FALSE(parameters_are_the_same(run).findings.empty());  // two replicas, and a hole
}

TEST(Claims, LetAStateBeDividedOverTheRanksByItsNames) {
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

TEST(Claims, CallWeightsThatAreBackAtTheUpdateARemark) {
  auto run = right_run();
  run.ranks[1].records.push_back({{1, "forward"}, digests("parameters", {{5, 1}, {5, 1}})});
  const auto judgement = parameters_are_the_same(run);
  EXPECT_TRUE(judgement.findings.empty());
  ASSERT_EQ(judgement.remarks.size(), 1u);
  EXPECT_EQ(judgement.remarks.front().pattern, "back_at_the_update");
}

TEST(Claims, CallWeightsThatWereWrittenAndDidNotChangeNothing) {
  auto run = right_run();
  run.ranks[1].records.push_back({{1, "forward"}, nth<Digests>(run.ranks[1], 1, "parameters")});
  const auto judgement = parameters_are_the_same(run);
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_TRUE(judgement.remarks.empty());
}

TEST(Claims, FindAnOptimizerThatLacksAParameterWithAGradient) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      nth<Fact>(rank, step, "optimizer 0").values["owned"].erase(1);
  const auto finding = optimizers_own_parameters_once(run).findings.at(0);
  EXPECT_EQ(finding.pattern, "in_no_optimizer");
  EXPECT_EQ(finding.where, "step 0, model 0 w1");
}

TEST(Claims, FindRanksThatDrawTheSameSamplesFromASamplerThatKnowsNoRanks) {
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

void set_losses(RecordedRun& run, int differ_by) {
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      nth<Fact>(rank, step, "backward").values["loss"] = 1.5 - 0.1 * step + differ_by * rank.number;
}

TEST(Claims, FindThatAllLossesAreTheSameWhateverFeedsTheRanks) {
  auto run = right_run();
  set_losses(run, 1);
  EXPECT_TRUE(passes_are_partitions(run).findings.empty());
  set_losses(run, 0);
  EXPECT_EQ(passes_are_partitions(run).findings.at(0).pattern, "same_losses");
  // A loss over what a collective gathered is the same on all ranks rightly.
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      rank.history.events.push_back(
          {{step, "forward"}, Collective{.op = "allgather", .group = "world", .elements = 64}});
  EXPECT_TRUE(passes_are_partitions(run).findings.empty());
}

TEST(Claims, FindSamplesThatNoPassDraws) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int pass = 0; pass < 2; ++pass) {
      auto& values = nth<Fact>(rank, pass, "loader 0").values;
      values["length"] = kLength + 1;
      values["drops"] = true;
      values["shuffle"] = false;
    }
  EXPECT_EQ(passes_are_partitions(run).findings.at(0).pattern, "never_drawn");
}

TEST(Claims, CompareAPassWithTheLastWholeOneOfItsLoader) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    for (int step = 0; step < 2; ++step)
      nth<Drawn>(rank, 2 + step, "loader 0") = nth<Drawn>(rank, step, "loader 0");
    for (int pass = 0; pass < 2; ++pass)
      nth<Fact>(rank, pass, "loader 0").values["sampler_epoch"] = 0;
    // A batch that was only looked at, between the two.
    const auto second = std::find_if(rank.records.begin(), rank.records.end(), [](const Record& r) {
      const auto* fact = std::get_if<Fact>(&r.what);
      return fact && fact->name == "loader 0" && fact->whole("epoch") == 1;
    });
    const Fact peek{"loader 0", {{"length", kLength}, {"replicas", 2}, {"shuffle", true}}};
    rank.records.insert(second, {{2, "data"}, peek});
  }
  EXPECT_EQ(orders_change(run).findings.at(0).pattern, "epoch_ignored");
}

TEST(Claims, CallAPassWholeThatDrewAsManyAsItsLoaderHas) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    std::erase_if(rank.records, [](const Record& record) {
      const auto* fact = std::get_if<Fact>(&record.what);
      return fact && fact->name == "loader 0 exhausted";
    });
    for (int pass = 0; pass < 2; ++pass) {
      auto& values = nth<Fact>(rank, pass, "loader 0").values;
      values["length"] = 8 * static_cast<int64_t>(run.ranks.size());
      values["batches"] = 2;
    }
  }
  EXPECT_EQ(orders_change(run).compared, "1 pair of passes");
}

TEST(Claims, FindDatasetsOfOneLengthAndOtherContent) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    nth<Fact>(rank, 0, "loader 0").values["fingerprint"] = std::to_string(rank.number);
  // Each rank may have data of its own.
  EXPECT_TRUE(datasets_are_the_same(run).findings.empty());
  EXPECT_EQ(datasets_are_the_same(run).remarks.at(0).pattern, "other_content");
  for (auto& rank : run.ranks) nth<Fact>(rank, 0, "loader 0").values["dataset"] = "Subset";
  EXPECT_EQ(datasets_are_the_same(run).findings.at(0).pattern, "other_content");
}

TEST(Claims, CallPaddingARemarkUnlessAReductionCountsIt) {
  auto run = right_run();
  nth<Drawn>(run.ranks[1], 0, "loader 1").indices.push_back(0);
  EXPECT_TRUE(evaluations_repeat_no_sample(run).findings.empty());
  EXPECT_EQ(evaluations_repeat_no_sample(run).remarks.at(0).pattern, "evaluation_padded");
  for (auto& rank : run.ranks)
    rank.history.events.push_back(
        {{0, "data"}, Collective{.op = "allreduce", .group = "world", .elements = 2}});
  EXPECT_EQ(evaluations_repeat_no_sample(run).findings.at(0).pattern, "evaluation_padded");
}

const Result& result_named(const Run& run, const std::string& name) {
  for (const auto& result : run.results)
    if (result.scenario == name) return result;
  throw std::logic_error("no such result: " + name);
}

TEST(Claims, NameARankThatSkipsAnUpdateFirstAndFoldTheRestUnderIt) {
  auto run = right_run();
  std::erase_if(run.ranks[1].records, [](const Record& record) {
    return record.at.step == 1 && record.at.phase == "update";
  });
  for (int n = 2; n < kSteps; ++n) nth<Digests>(run.ranks[1], n, "gradients").values[0].bits = 99;
  const auto results = judged(run);
  const auto& cause = result_named(results, "run.has_one_length");
  ASSERT_EQ(cause.kind, Result::Kind::fail);
  EXPECT_EQ(cause.worst.findings.front().pattern, "skipped_update");
  EXPECT_NE(cause.worst.findings.front().text.find("\nwhat follows from it:"), std::string::npos);
  EXPECT_EQ(result_named(results, "gradients.are_the_same").kind, Result::Kind::skip);
  EXPECT_EQ(std::count_if(results.results.begin(), results.results.end(),
                          [](const Result& result) { return is_failure(result.kind); }),
            1);
}

TEST(Claims, SayTheirPlaceInTheText) {
  auto run = right_run();
  nth<Digests>(run.ranks[1], 2, "gradients").values[1].bits = 77;
  const auto run_of = judged(run);
  const auto& finding = result_named(run_of, "gradients.are_the_same").worst.findings.front();
  EXPECT_NE(finding.text.find("\nfirst at: step 2, backward, w1"), std::string::npos)
      << finding.text;
}

TEST(Claims, ShowNoDigestUnderNormAlone) {
  auto run = right_run();
  nth<Digests>(run.ranks[1], 2, "gradients").values[1].bits = 77;
  const auto text = gradients_are_the_same(run).findings.at(0).text;
  EXPECT_NE(text.find("1 (bits 0000004d)"), std::string::npos) << text;
}

TEST(Claims, TellTheHistoryOfANaNInTheOrderOfThePhases) {
  auto run = right_run();
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  nth<Digests>(run.ranks[0], 2, "buffers").values[0].norm = nan;    // step 2, forward
  nth<Digests>(run.ranks[0], 2, "gradients").values[0].norm = nan;  // step 2, backward
  const auto text = values_stay_finite(run).findings.at(0).text;
  EXPECT_NE(text.find("step 2, forward"), std::string::npos);
  EXPECT_EQ(text.find("before that"), std::string::npos) << text;
}

TEST(Claims, AllowByName) {
  auto run = right_run();
  nth<Digests>(run.ranks[1], 2, "gradients").values[1].bits = 77;
  const Allowances allowed{.claims = {"gradients.are_the_same"}};
  const auto results = judged(run, nullptr, allowed);
  EXPECT_EQ(result_named(results, "gradients.are_the_same").kind, Result::Kind::pass);
  EXPECT_EQ(result_named(results, "gradients.are_the_same").remarks.size(), 1u);
  EXPECT_THROW(check_claim_name("gradients.are_the_sane", "--allow"), FieldError);
}

TEST(Claims, CallOneSeedForDropoutARemarkThatFailsAStrictJudgement) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int step = 0; step < kSteps; ++step)
      nth<Digests>(rank, step, "random").values[0].bits = uint64_t(step);
  EXPECT_EQ(result_named(judged(run), "random.streams_differ").kind, Result::Kind::pass);
  EXPECT_EQ(result_named(judged(run, nullptr, {.is_strict = true}), "random.streams_differ").kind,
            Result::Kind::fail);
}

TEST(Claims, AreExplainedEachAndNoOther) {
  std::set<std::string_view> names, explained;
  for (const auto& claim : claims()) names.insert(claim.name);
  for (const auto& claim : claims_against()) names.insert(claim.name);
  for (const auto& is : claim_explanations()) explained.insert(is.name);
  EXPECT_EQ(names, explained);
  for (const auto& mistake : mistakes()) {
    const auto all = pattern_explanations();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const auto& is) {
      return is.name == mistake.pattern;
    })) << mistake.pattern;
  }
  for (const auto& symptom : symptoms())
    EXPECT_TRUE(names.contains(symptom.about) || symptom.about.starts_with("docs/"))
        << symptom.about;
}

TEST(Claims, NameTheRankThatStandsAlone) {
  auto run = right_run(4);
  nth<Digests>(run.ranks[2], 1, "parameters").values[1] = {8, 1.5};
  const auto finding = parameters_are_the_same(run).findings.front();
  EXPECT_EQ(finding.pattern, "one_rank_stands_alone");
  EXPECT_EQ(finding.where, "step 0, update, w1");
  EXPECT_NE(finding.text.find("1 of 2 tensors differ, first w1\n"), std::string::npos);
}

TEST(Claims, CallARankThatWasCutOffInconclusive) {
  auto run = right_run();
  for (auto& rank : run.ranks) rank.history.ending = {Ending::Kind::cut_off, ""};
  const auto results = judged(run).results;
  EXPECT_EQ(results.front().kind, Result::Kind::inconclusive);
  EXPECT_EQ(results.front().worst.findings.front().pattern, "cut_off");
}

TEST(Claims, CallARunInconclusiveThatWasStoppedBeforeItsFirstUpdateOrCollective) {
  for (const bool was_stopped : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      rank.records = {}, rank.history.events = {};
      if (was_stopped) rank.history.ending = {Ending::Kind::cut_off, ""};
    }
    using enum Result::Kind;
    EXPECT_EQ(judged(run).results[0].kind, was_stopped ? inconclusive : fail);
    EXPECT_EQ(judged(run).results[1].kind, was_stopped ? skip : fail);
  }
}

TEST(Claims, BlameNoRankForACollectiveWhereAllWereStopped) {
  auto run = right_run();
  for (auto& rank : run.ranks) rank.history.ending = {Ending::Kind::cut_off, ""};
  run.ranks[1].history.events.pop_back();
  const auto judgement = collectives_have_one_order(run);
  ASSERT_FALSE(judgement.findings.empty());
  EXPECT_EQ(judgement.findings.front().pattern, "missing_collective");
  EXPECT_FALSE(judgement.is_certain);
  run.ranks[0].history.ending = {};
  run.ranks[0].history.ending.kind = Ending::Kind::returned;
  EXPECT_TRUE(collectives_have_one_order(run).findings.empty());
}

TEST(Claims, LetARankThatDiedExplainTheCollectivesThatItLacks) {
  auto run = right_run();
  run.ranks[1].history.events.pop_back();
  run.ranks[1].history.ending = {Ending::Kind::threw, "no"};
  EXPECT_TRUE(collectives_have_one_order(run).findings.empty());
}

// Rank 0 logs a loss that rank 1 does not, and rank 1 is in its backward. Both give up.
TEST(Claims, FindThatTwoRanksWaitInCollectivesOfWhichEachIsTheOthersOwn) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    auto& events = rank.history.events;
    const Moment at{kSteps, "backward"};
    Collective loss{.op = "allreduce", .group = "of the program", .elements = 1, .done = true};
    events.push_back({at, loss});
    if (rank.number == 0) {
      loss.sequence = 1;
      loss.done = false;
      events.push_back({at, loss});
    } else {
      events.push_back(
          {at, Collective{.op = "allreduce", .group = "world", .sequence = 2 * kSteps}});
    }
    rank.history.ending = {Ending::Kind::threw, "no answer"};
  }
  const auto findings = collectives_have_one_order(run).findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings.front().pattern, "mismatched_collectives");
  EXPECT_EQ(findings.front().text.find("rank 0 waited in collective #1 of "), 0u)
      << findings.front().text;
}

TEST(Claims, CountNoForwardThatARecorderDidNotSee) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int n = 0; n < kSteps; ++n) nth<Fact>(rank, n, "backward").values["kind"] = "local";
  EXPECT_NE(forwards_run_through_the_wrapper(run).why_not, "");
  EXPECT_EQ(gradients_differ_in_no_sync(run).findings.front().pattern, "same_data");
}

TEST(Claims, AllowAnUpdateFromGradientsOfWhichTheLastWereAveraged) {
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

TEST(Claims, AllowThePaddingOfADistributedSampler) {
  auto run = right_run();
  for (auto& rank : run.ranks) {
    for (int pass = 0; pass < 2; ++pass) nth<Fact>(rank, pass, "loader 0").values["length"] = 15;
    for (int step = 0; step < kSteps; ++step)
      for (auto& index : nth<Drawn>(rank, step, "loader 0").indices) index %= 15;
  }
  EXPECT_TRUE(passes_are_partitions(run).findings.empty());
}

}  // namespace
}  // namespace lockstep::recorded
