// Each invariant passes on a right run and finds the mistake that is planted in it.
#include "harness/invariants/invariants.h"

#include "harness/invariants/explanations.h"
#include "harness/invariants/judge_run.h"
#include "harness/invariants/resumed.h"
#include "tests/judge/right_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

namespace lockstep::recorded {
namespace {

struct Mistake {
  const char *invariant, *pattern;
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
        {"forward.runs_through_the_wrapper", "bare_forward", first([](Rank& rank) {
           nth<Fact>(rank, 1, "backward").values["kind"] = "bare";
           nth<Digests>(rank, 1, "gradients").values[0].bits = 77;
         })},
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

const Invariant& invariant_named(std::string_view name) {
  for (const auto& invariant : invariants())
    if (invariant.name == name) return invariant;
  throw std::logic_error("no such invariant");
}

TEST(Invariants, HoldForARightRun) {
  const auto run = right_run();
  for (const auto& invariant : invariants()) {
    const auto judgement = invariant.judge(run);
    EXPECT_TRUE(judgement.findings.empty())
        << invariant.name << ": " << judgement.findings.front().diagnosis;
    EXPECT_EQ(judgement.why_not.empty(), invariant.name != "gradients.differ_in_no_sync")
        << invariant.name;
  }
}

TEST(Invariants, HoldOrAreNotJudgedForOneRankAlone) {
  auto run = right_run(1);
  for (const auto& invariant : invariants())
    EXPECT_TRUE(invariant.judge(run).findings.empty()) << invariant.name;
}

TEST(Invariants, EachFindsTheMistakeThatIsPlanted) {
  std::set<std::string_view> found;
  for (const auto& mistake : mistakes()) {
    auto run = right_run();
    mistake.plant(run);
    auto judgement = invariant_named(mistake.invariant).judge(run);
    judgement.findings += judgement.remarks;
    ASSERT_FALSE(judgement.findings.empty()) << mistake.invariant << " " << mistake.pattern;
    found.insert(mistake.invariant);
    EXPECT_EQ(judgement.findings.front().pattern, mistake.pattern) << mistake.invariant;
    EXPECT_NE(judgement.findings.front().diagnosis, "") << mistake.invariant;
  }
  EXPECT_EQ(found.size(), invariants().size());
}

TEST(Invariants, AreExplainedEachAndNoOther) {
  std::set<std::string_view> names, explained;
  for (const auto& invariant : invariants()) names.insert(invariant.name);
  for (const auto& invariant : invariants_against()) names.insert(invariant.name);
  for (const auto& invariant : invariants_after()) names.insert(invariant.name);
  for (const auto& is : invariant_explanations()) explained.insert(is.name);
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

TEST(Invariants, NameTheRankThatStandsAlone) {
  auto run = right_run(4);
  nth<Digests>(run.ranks[2], 1, "parameters").values[1] = {8, 1.5};
  const auto finding = parameters_are_the_same(run).findings.front();
  EXPECT_EQ(finding.pattern, "one_rank_stands_alone");
  EXPECT_EQ(finding.where, "step 0, update, w1");
  EXPECT_NE(finding.diagnosis.find("1 of 2 tensors differ, first w1"), std::string::npos);
}

TEST(Invariants, CallARankThatWasCutOffInconclusive) {
  auto run = right_run();
  for (auto& rank : run.ranks) rank.history.ending = {Ending::Kind::cut_off, ""};
  const auto results = judged(run).results;
  EXPECT_EQ(results.front().kind, Result::Kind::inconclusive);
  EXPECT_EQ(results.front().worst.findings.front().pattern, "cut_off");
}

TEST(Invariants, CallARunInconclusiveThatWasStoppedBeforeItsFirstUpdateOrCollective) {
  for (const bool was_stopped : {true, false}) {
    auto run = right_run();
    for (auto& rank : run.ranks) {
      rank.records = {}, rank.history.events = {};
      if (was_stopped) rank.history.ending = {Ending::Kind::cut_off, ""};
    }
    using enum Result::Kind;
    EXPECT_EQ(judged(run).results[0].kind, was_stopped ? inconclusive : fail);
    EXPECT_EQ(collectives_have_one_order(run).findings.empty(), was_stopped);
  }
}

TEST(Invariants, BlameNoRankForACollectiveWhereAllWereStopped) {
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

TEST(Invariants, LetARankThatDiedExplainTheCollectivesThatItLacks) {
  auto run = right_run();
  run.ranks[1].history.events.pop_back();
  run.ranks[1].history.ending = {Ending::Kind::threw, "no"};
  EXPECT_TRUE(collectives_have_one_order(run).findings.empty());
}

// Rank 0 logs a loss that rank 1 does not, and rank 1 is in its backward. Both give up.
TEST(Invariants, FindThatTwoRanksWaitInCollectivesOfWhichEachIsTheOthersOwn) {
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
  EXPECT_EQ(findings.front().diagnosis.find("rank 0 waited in collective #1 of "), 0u)
      << findings.front().diagnosis;
}

TEST(Invariants, CountNoForwardThatARecorderDidNotSee) {
  auto run = right_run();
  for (auto& rank : run.ranks)
    for (int n = 0; n < kSteps; ++n) nth<Fact>(rank, n, "backward").values["kind"] = "local";
  EXPECT_NE(forwards_run_through_the_wrapper(run).why_not, "");
  EXPECT_EQ(gradients_differ_in_no_sync(run).findings.front().pattern, "same_data");
}

}  // namespace
}  // namespace lockstep::recorded
