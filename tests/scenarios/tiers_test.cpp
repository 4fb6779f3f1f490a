// A tier decides where a case runs, not what it shows: the same cases on simulated, warm and cold
// worlds give the same verdicts, and where a case is exact every rank records the same bits.
#include "harness/worlds/tiers.h"

#include "harness/base/text.h"
#include "harness/cases/draw.h"
#include "harness/verdict/trace.h"
#include "harness/worlds/subject.h"
#include "reports/findings/text.h"
#include "scenarios/catalogue.h"
#include "scenarios/subjects/subjects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep::scenarios {
namespace {

// With LOCKSTEP_CAMPAIGNS set, minutes more.
const int kCasesEach = std::getenv("LOCKSTEP_CAMPAIGNS") ? 40 : 6;
constexpr int kCasesPerColdOne = 4;  // a cold world takes many times as long as a warm one

std::vector<Scenario> all_but_canaries() {
  std::vector<Scenario> out;
  for (auto& scenario : catalogue())
    if (std::find(scenario.tags.begin(), scenario.tags.end(), "canary") == scenario.tags.end())
      out.push_back(std::move(scenario));
  return out;
}

// Those drawn; the exhaustive ones are many, and small.
std::vector<Case> some_cases(const Scenario& scenario) {
  const auto all = draw_cases(scenario, {.seed = 11, .cases = kCasesEach, .schedules = true});
  std::vector<Case> cases;
  for (size_t index = all.size() - std::min(all.size(), static_cast<size_t>(kCasesEach));
       index < all.size(); ++index) {
    auto value = all[index].value;
    value["world"]["reduction"] = "ring";  // as Gloo's, so that sums round alike
    cases.push_back(scenario.parse(value));
  }
  return cases;
}

// An optimizer divides and takes roots: from its second step on the order of a sum shows. So it
// does where float32 gradients that a normalisation has divided are averaged. How far ranks
// came when a timeout ended their wait for a late one differs too.
bool is_exact(const Case& c) {
  return c.scenario != "replicas.stay_equal" &&
         c.scenario != "sync_batch_norm.gradients_want_weights" && c.value.value("late", -1) < 0 &&
         c.value.value("late_rank", -1) < 0 && c.value.value("values", "exact") == "exact";
}

std::string findings_of(const Verdict& verdict) {
  std::string text = ": " + std::string(name_of(verdict.kind));
  for (const auto& finding : verdict.findings)
    text += ", " + finding.rule + ": " + finding.diagnosis;
  return text;
}

// One lane for all, made before a reference is computed: that starts threads.
class Tiers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    lanes_ = forked_lanes({}, all_but_canaries(), Subjects{lockstep_subject()}, 1);
  }
  static void TearDownTestSuite() { lanes_.clear(); }

  static History run(const Scenario& scenario, const Case& c, const std::string& tier) {
    return lanes_[0]->run(scenario, c, {"lockstep", tier, tier == "sim" ? "memory" : "gloo"},
                          {std::chrono::minutes(5)});
  }

 private:
  static inline std::vector<std::unique_ptr<Tier>> lanes_;
};

TEST_F(Tiers, ShowTheSame) {
  const auto scenarios = all_but_canaries();
  int runs = 0, compared = 0;
  for (const auto& scenario : scenarios)
    for (const auto& c : some_cases(scenario)) {
      SCOPED_TRACE(scenario.name + " " + c.value.dump());
      const auto sim = run(scenario, c, "sim");
      const auto verdict = judge(scenario, c, sim);
      ++runs;
      for (const char* tier : {"warm", "cold"}) {
        if (std::string_view(tier) == "cold" && runs % kCasesPerColdOne != 0) continue;
        const auto other = run(scenario, c, tier);
        const auto others = judge(scenario, c, other);
        ASSERT_EQ(others, verdict)
            << tier << findings_of(others) << "; sim" << findings_of(verdict);
        // How far ranks came before they received another's end, and in what words, differs.
        if (!is_exact(c) || scenario.judges_endings) continue;
        ASSERT_EQ(other, sim) << tier;
        ++compared;
      }
    }
  const auto wanted = static_cast<int>(scenarios.size()) * kCasesEach;
  EXPECT_GE(runs, wanted * 7 / 10);
  EXPECT_GE(compared, wanted * 7 / 10);
}

// Long before any timeout, by an exception that names what it was waiting for.
TEST_F(Tiers, SurvivorsReceiveTheErrorOfARankThatEnds) {
  const auto scenario = scenario_in_catalogue("gradients.match_single_process");
  for (const char* tier : {"sim", "cold", "warm"})
    for (const auto kind :
         {InjectionKind::kill, InjectionKind::exit, InjectionKind::throw_, InjectionKind::error})
      for (const int collective : {0, 1, 3}) {
        SCOPED_TRACE(std::string(tier) + " " + word_of(kind) + " at " + std::to_string(collective));
        const Injection planted{.kind = kind, .rank = 1, .collective = collective, .amount = 5};
        const auto c = scenario.parse(
            Json{{"world", {{"size", 3}, {"injections", Json::array({to_json(planted)})}}},
                 {"steps", 2}});
        const auto history = run(scenario, c, tier);
        ASSERT_TRUE(is_failure(judge(scenario, c, history).kind));
        for (const int rank : {0, 2}) {
          const auto& ending = history.ranks()[static_cast<size_t>(rank)].ending;
          ASSERT_EQ(ending.kind, Ending::Kind::threw) << "rank " << rank;
          EXPECT_TRUE(ending.why.find("all-reduce") != std::string::npos ||
                      ending.why.find("broadcast") != std::string::npos ||
                      ending.why.find("exchange") != std::string::npos ||
                      ending.why.find("connect") != std::string::npos ||
                      ending.why.find("collective #") != std::string::npos)
              << ending.why;
        }
      }
}

// A rank whose sum is dropped continues with its own; the others miss it.
TEST_F(Tiers, ADroppedSumOfOurOwnIsFoundByTheJudge) {
  const auto scenario = scenario_in_catalogue("gradients.match_single_process");
  const auto case_with = [&](const Json& injections) {
    return scenario.parse(Json{{"world", {{"size", 2}, {"injections", injections}}}, {"steps", 1}});
  };
  const auto all = run(scenario, case_with(Json::array()), "sim").collectives(1);
  const Injection planted{
      .kind = InjectionKind::drop, .rank = 1, .collective = static_cast<int>(all.back().sequence)};
  const auto c = case_with(Json::array({to_json(planted)}));
  const auto history = run(scenario, c, "sim");
  EXPECT_TRUE(is_failure(judge(scenario, c, history).kind));
  EXPECT_EQ(history.ranks()[1].ending.kind, Ending::Kind::returned)
      << history.ranks()[1].ending.why;
}

// By the plan that the subject publishes: one bucket in the first step, and from the second on
// those of its caps.
TEST_F(Tiers, NameTheBucketOfAnAllReduce) {
  const auto scenario = scenario_in_catalogue("gradients.match_single_process");
  const auto c = scenario.parse(Json{{"world", {{"size", 2}}},
                                     {"steps", 3},
                                     {"network", {{"branches", 2}}},
                                     {"options", {{"bucket_cap_bytes", 1}}}});
  const auto history = run(scenario, c, "sim");
  ASSERT_EQ(judge(scenario, c, history).kind, Verdict::Kind::pass);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> buckets;
    for (const auto& issued : history.collectives(rank))
      if (issued.bucket) buckets.push_back(number_text(*issued.bucket));
    ASSERT_GE(buckets.size(), 5u);
    EXPECT_EQ(buckets[0], "bucket 0 of 1");
    const auto count = (buckets.size() - 1) / 2;
    for (size_t i = 1; i < buckets.size(); ++i)
      EXPECT_EQ(buckets[i],
                "bucket " + std::to_string((i - 1) % count) + " of " + std::to_string(count));
  }
}

TEST_F(Tiers, TheLadderNamesTheParametersOfABucketThatSomebodyMisses) {
  const auto scenario = scenario_in_catalogue("gradients.match_single_process");
  const auto c = scenario.parse(Json{{"world", {{"size", 2}}}});
  const auto whole = run(scenario, c, "sim").collectives(1);
  const auto bucket = std::find_if(whole.begin(), whole.end(),
                                   [](const auto& issued) { return issued.bucket.has_value(); });
  ASSERT_NE(bucket, whole.end());
  const Injection planted{
      .kind = InjectionKind::kill, .rank = 1, .collective = static_cast<int>(bucket->sequence)};
  const auto struck = scenario.parse(
      Json{{"world", {{"size", 2}, {"injections", Json::array({to_json(planted)})}}}});
  const auto ladder_text = joined(reports::lines_of(ladder(run(scenario, struck, "sim"))), "\n");
  EXPECT_NE(ladder_text.find("(" + text_of(*bucket->bucket) + ")"), std::string::npos)
      << ladder_text;
}

}  // namespace
}  // namespace lockstep::scenarios
