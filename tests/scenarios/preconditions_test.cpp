// A scenario's claim is about the cases that meet its precondition: every case that it draws does,
// and so does every case that a search plays, on which Lockstep's own subject holds.
#include "harness/engine/case_run.h"
#include "harness/engine/draw.h"
#include "harness/engine/shrink.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"
#include "scenarios/catalogue.h"
#include "scenarios/subjects/subjects.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace lockstep::scenarios {
namespace {

const bool kIsCampaign = std::getenv("LOCKSTEP_CAMPAIGNS") != nullptr;

TEST(Preconditions, EveryCaseOfAScenarioMeetsIts) {
  for (const auto& scenario : catalogue()) {
    EXPECT_EQ(scenario.unmet_precondition(scenario.smallest()), "") << scenario.name;
    const auto cases = draw_cases(scenario, {.seed = 11, .schedules = true, .late_results = true});
    for (size_t index = 0; index < cases.size(); ++index)
      ASSERT_EQ(scenario.unmet_precondition(cases[index]), "")
          << scenario.name << " " << cases[index].value.dump();
  }
}

// Shows the failure on cases that a hash chooses, so that searches go everywhere.
struct Chosen : Trials {
  explicit Chosen(const Scenario& scenario) : scenario(scenario) {}
  std::vector<std::optional<Outcome>> play(const std::vector<Case>& cases, Outcome,
                                           TrialTime) override {
    std::vector<std::optional<Outcome>> outcomes;
    for (const auto& c : cases) {
      EXPECT_EQ(scenario.unmet_precondition(c), "") << scenario.name << " " << c.value.dump();
      const bool shows = std::stoull(hash_of(c).substr(0, 4), nullptr, 16) % 3 == 0;
      outcomes.emplace_back(shows ? Outcome::shows : Outcome::passes);
    }
    return outcomes;
  }
  const Scenario& scenario;
};

TEST(Preconditions, EveryCaseThatASearchPlaysMeetsThem) {
  for (const auto& scenario : catalogue()) {
    Chosen trials(scenario);
    Search search(trials);
    search.allow(TrialTime::max(), 300);
    shrink(scenario, scenario.draw(3, 60), search);
    EXPECT_GT(search.runs(), 0) << scenario.name;
  }
}

class ASmallerCase : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    lanes_ = forked_lanes({}, catalogue(), Subjects{lockstep_subject()}, 1);
  }
  static void TearDownTestSuite() { lanes_.clear(); }

  static Verdict verdict(const Scenario& scenario, const Case& c) {
    return run_case(*lanes_[0], scenario, c, {"lockstep", "sim", "memory"},
                    {std::chrono::minutes(2)})
        .verdict;
  }

 private:
  static inline std::vector<std::unique_ptr<Tier>> lanes_;
};

// From a drawn case down, by steps that chance chooses, so that each field gets small while others
// are still large. What fails there would be a counterexample against any subject.
bool some_smaller_case_fails(const Scenario& scenario, uint64_t seed,
                             const std::function<Verdict(const Case&)>& verdict_of) {
  std::mt19937_64 chance(seed);
  Case c = scenario.draw(seed, 60);
  for (;;) {
    const auto smaller = within_precondition(scenario, scenario.smaller(c));
    if (smaller.empty()) return false;
    c = smaller[chance() % smaller.size()];
    const auto verdict = verdict_of(c);
    if (!is_failure(verdict.kind) && verdict.kind != Verdict::Kind::inconclusive) continue;
    ADD_FAILURE() << c.scenario << " " << c.value.dump() << "\n"
                  << verdict.signature() << "\n"
                  << verdict.findings.front().text;
    return true;
  }
}

TEST_F(ASmallerCase, ThatMeetsThePreconditionHoldsOnLockstep) {
  const uint64_t starts = kIsCampaign ? 60 : 2;
  for (const auto& scenario : catalogue()) {
    if (scenario.draws <= 1) continue;  // a canary is to fail
    const auto verdict_of = [&](const Case& c) { return verdict(scenario, c); };
    for (uint64_t seed = 0; seed < starts; ++seed)
      if (some_smaller_case_fails(scenario, seed, verdict_of)) break;
  }
}

}  // namespace
}  // namespace lockstep::scenarios
