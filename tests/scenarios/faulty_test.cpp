// Every scenario of training is seen failing, in real worlds, on a subject with one mistake; and
// the diagnosis names that mistake. Without a mistake the same subject passes.
#include "tests/scenarios/faulty.h"

#include "harness/cases/draw.h"
#include "harness/cases/scenario.h"
#include "harness/worlds/tiers.h"
#include "scenarios/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lockstep::scenarios {
namespace {

struct Planted {
  const char* fault;
  const char* scenario;
  const char* pattern;
  std::vector<std::pair<std::string, std::string>> set = {};
  const char* text = "";  // that the finding has besides
};

const std::vector<Planted> kPlanted{
    {"parameters stay as built", "replicas.start_equal", "own_initial_state"},
    {"buffers stay as built", "replicas.start_equal", "own_initial_state"},
    {"broadcasts from the last rank", "replicas.start_equal", "took_another_ranks_state"},
    {"broadcasts from rank 1",
     "replicas.start_equal",
     "took_another_ranks_state",
     {{"world.size", "3"}},
     "the values that rank 1 was built with"},
    {"sums", "gradients.match_single_process", "sum_not_average"},
    {"divides twice", "gradients.match_single_process", "divided_twice"},
    {"divides by elements",
     "gradients.match_single_process",
     "divided_by_elements",
     {{"network.inputs", "8"}}},
    {"never reduces", "gradients.match_single_process", "not_reduced"},
    {"copies rank 0's gradient", "gradients.match_single_process", "rank_zeros_gradient"},
    {"takes the largest", "gradients.match_single_process", "largest_not_sum"},
    {"adds to the old gradient", "gradients.match_single_process", "added_not_written"},
    {"rank 1 does not divide",
     "gradients.match_single_process",
     "one_rank_undivided",
     {},
     "the gradient of rank 1"},
    {"weighs by its part of the batch", "gradients.match_single_process", "off_by_batch_ratio"},
    {"lags a step", "gradients.match_single_process", "last_steps_value"},
    {"rank 1 lags a step", "gradients.match_single_process", "one_rank_stale", {}, "on rank 1: "},
    {"rank 1 puts in its last bucket",
     "gradients.match_single_process",
     "last_steps_gradient",
     {},
     "rank 1 put in"},
    {"leaves no gradient on rank 1",
     "gradients.match_single_process",
     "no_gradient",
     {},
     "rank 1 has no gradient"},
    {"leaves no gradient on rank 1", "replicas.stay_equal", "no_gradient"},
    {"one rank keeps its own", "gradients.match_single_process", "not_reduced"},
    {"parameters stay as built", "gradients.match_single_process", "own_initial_state"},
    {"divides by the world", "gradients.average_over_the_group", "divided_by_the_world"},
    {"never reduces", "gradients.undefined_counts_as_zero", ""},
    {"loads a checkpoint on rank 1", "replicas.stay_equal", ""},
    {"prunes on rank 1", "replicas.stay_equal", ""},
    {"never reduces", "replicas.stay_equal", ""},
    {"ignores no_sync", "accumulation.no_sync_accumulates", "reduced_inside_no_sync"},
    {"never reduces", "accumulation.no_sync_accumulates", "not_reduced"},
    {"averages the last micro-batch alone", "accumulation.no_sync_accumulates",
     "window_not_reduced"},
    {"adds the last micro-batch after reducing", "accumulation.no_sync_accumulates",
     "last_micro_batch_left_out"},
    {"decides at backward", "accumulation.is_decided_at_forward", "reduced_inside_no_sync"},
    {"none", "accumulation.graphs_decide", ""},
    {"never reduces", "accumulation.graphs_decide", "not_reduced"},
    {"never reduces", "accumulation.bare_passes_are_local", "not_reduced"},
    {"none", "unused.are_averaged_over_all_ranks", "unexpected_gradient"},
    {"leaves rank 1 out of the sum",
     "gradients.match_single_process",
     "one_rank_left_out",
     {},
     "without the gradient of rank 1"},
    {"counts ranks with samples",
     "gradients.match_single_process",
     "empty_ranks_not_counted",
     {{"world.size", "3"}, {"shares", "[0,1,1]"}}},
    {"averages buffers", "buffers.follow_rank_zero", "averaged_buffers"},
    {"never broadcasts buffers", "buffers.follow_rank_zero", "kept_own_buffers"},
    {"broadcasts buffers after forward", "buffers.follow_rank_zero", "broadcast_after_forward"},
    {"broadcasts from the last rank", "buffers.follow_rank_zero", ""},
    {"never broadcasts buffers", "buffers.lag_behind_local_forwards", "kept_own_buffers"},
    {"broadcasts buffers in every forward", "buffers.lag_behind_local_forwards",
     "took_rank_zeros_buffers"},
    {"lists buffers at construction", "buffers.every_kind_is_followed", "kept_own_buffers"},
    {"leaves out whole numbers in forwards",
     "buffers.every_kind_is_followed",
     "",
     {},
     "the rank's own buffers, where rank 0's belong"},
    {"sends whole numbers as doubles", "buffers.every_kind_is_followed", "through_floating_point"},
    {"none",
     "replicas.different_models_are_refused",
     "wrapped_without_a_word",
     {{"differences", R"([{"what":"find_unused_parameters"}])"}, {"tensors", "[{}]"}}},
};

// Two mistakes in one class, of which neither is a consequence of the other.
struct PlantedTwo {
  const char *faults, *scenario, *first, *second;
  std::vector<std::pair<std::string, std::string>> set = {};
};

const std::vector<PlantedTwo> kPlantedTwo{
    {"sums+never broadcasts buffers",
     "programs.match_single_process",
     "sum_not_average",
     "kept_own_buffers",
     {{"steps", R"([{"op":"forward"},{"op":"backward"},{"op":"update"},{"op":"forward"},
                    {"op":"backward"},{"op":"update"},{"op":"forward"}])"},
      {"buffers", R"(["float32"])"},
      {"ignored_buffers", "0"},
      {"options.broadcast_buffers", "true"},
      {"world.size", "3"},
      {"seed", "6"}}},
    {"never broadcasts buffers+sums",
     "programs.match_single_process",
     "kept_own_buffers",
     "sum_not_average",
     {{"steps", R"([{"op":"forward"},{"op":"forward"},{"op":"backward"}])"},
      {"buffers", R"(["float32"])"},
      {"ignored_buffers", "0"},
      {"options.broadcast_buffers", "true"},
      {"world.size", "3"},
      {"seed", "6"}}},
    {"parameters stay as built+sums",
     "gradients.match_single_process",
     "own_initial_state",
     "sum_not_average",
     {{"values", "exact"}}},
    {"parameters stay as built+sums",
     "training.is_one_process",
     "own_initial_state",
     "sum_not_average",
     {{"steps_in_backward", "false"}}},
};

const std::vector<const char*> kHeld{
    "replicas.start_equal",
    "gradients.match_single_process",
    "gradients.average_over_the_group",
    "gradients.undefined_counts_as_zero",
    "accumulation.no_sync_accumulates",
    "accumulation.is_decided_at_forward",
    "replicas.stay_equal",
    "replicas.conversion_is_noticed",
    "buffers.follow_rank_zero",
    "buffers.lag_behind_local_forwards",
    "buffers.every_kind_is_followed",
};

class FaultySubjects : public ::testing::Test {
 protected:
  // Started before anything in this process has a second thread.
  static void SetUpTestSuite() {
    std::vector<Scenario> scenarios;
    for (const auto* name : kHeld) scenarios.push_back(scenario_in_catalogue(name));
    // The scenarios that the textbook's subject does not hold even without a mistake.
    for (const auto* name :
         {"replicas.different_models_are_refused", "accumulation.graphs_decide",
          "accumulation.bare_passes_are_local", "unused.are_averaged_over_all_ranks",
          "programs.match_single_process", "training.is_one_process"})
      scenarios.push_back(scenario_in_catalogue(name));
    std::set<std::string> faults{"none"};
    for (const auto& planted : kPlanted) faults.insert(planted.fault);
    for (const auto& planted : kPlantedTwo) faults.insert(planted.faults);
    std::vector<Subject> subjects;
    for (const auto& fault : faults) subjects.push_back(faulty_subject(fault));
    lanes_ = forked_lanes({}, scenarios, Subjects(subjects), 1, {.ranks_most = 6});
  }
  static void TearDownTestSuite() { lanes_.clear(); }

  static Verdict run(const Scenario& scenario, const Case& c, const std::string& subject) {
    const auto history = lanes_.front()->run(scenario, c, {.subject = subject, .tier = "warm"},
                                             {std::chrono::seconds(60)});
    return judge(scenario, c, history);
  }

  // The verdict of the first failing case; of the last one where none fails.
  static Verdict first_failure(const Scenario& scenario, const std::string& subject,
                               const DrawOptions& options) {
    Verdict verdict;
    const auto cases = draw_cases(scenario, options);
    for (size_t index = 0; index < cases.size(); ++index) {
      verdict = run(scenario, cases[index], subject);
      if (is_failure(verdict.kind)) break;
    }
    return verdict;
  }

  static inline std::vector<std::unique_ptr<Tier>> lanes_;
};

TEST_F(FaultySubjects, EachMistakeIsCaughtAndNamed) {
  for (const auto& planted : kPlanted) {
    const auto scenario = scenario_in_catalogue(planted.scenario);
    const auto verdict =
        first_failure(scenario, planted.fault, {.seed = 1, .cases = 40, .set = planted.set});
    const std::string what = std::string(planted.fault) + " in " + scenario.name;
    ASSERT_EQ(name_of(verdict.kind), "fail")
        << what << (verdict.findings.empty() ? "" : verdict.findings.front().diagnosis);
    const auto& finding = verdict.findings.front();
    if (*planted.pattern != 0) {
      EXPECT_EQ(finding.pattern, planted.pattern) << what << ": " << finding.diagnosis;
    }
    EXPECT_NE(finding.diagnosis.find(planted.text), std::string::npos)
        << what << ": " << finding.diagnosis;
  }
}

TEST_F(FaultySubjects, TheFirstMistakeDoesNotHideTheSecond) {
  for (const auto& planted : kPlantedTwo) {
    const auto scenario = scenario_in_catalogue(planted.scenario);
    EXPECT_TRUE(scenario.judges_each_step);
    const auto verdict =
        first_failure(scenario, planted.faults, {.seed = 1, .cases = 40, .set = planted.set});
    const std::string what = std::string(planted.faults) + " in " + scenario.name;
    ASSERT_EQ(name_of(verdict.kind), "fail")
        << what << (verdict.findings.empty() ? "" : verdict.findings.front().diagnosis);
    EXPECT_EQ(verdict.findings.front().pattern, planted.first) << what;
    std::vector<std::string> others;
    for (const auto& other : other_explanations(verdict)) others.push_back(other.pattern);
    EXPECT_EQ(others, std::vector<std::string>{planted.second}) << what;
  }
}

TEST_F(FaultySubjects, TheSameSubjectWithoutAMistakePasses) {
  for (const auto* name : kHeld) {
    const auto scenario = scenario_in_catalogue(name);
    const auto verdict = first_failure(scenario, "none", {.seed = 1, .cases = 20});
    EXPECT_FALSE(is_failure(verdict.kind))
        << scenario.name << ": "
        << (verdict.findings.empty() ? "" : verdict.findings.front().diagnosis);
  }
}

}  // namespace
}  // namespace lockstep::scenarios
