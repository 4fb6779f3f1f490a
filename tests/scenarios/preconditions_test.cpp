// A scenario's claim is about the cases that meet its precondition: every case that it draws does,
// and so does every case that a search runs, on which Lockstep's own subject holds.
#include "harness/base/text.h"
#include "harness/campaign/case_run.h"
#include "harness/cases/draw.h"
#include "harness/cases/shrink.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/catalogue.h"
#include "scenarios/subjects/subjects.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
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

template <class Float>
bool some_share_rounds(int ranks) {
  for (int quotient = 1; quotient < 5'000; ++quotient)
    if (static_cast<Float>(quotient * ranks) * (1 / static_cast<Float>(ranks)) !=
        static_cast<Float>(quotient))
      return true;
  return false;
}

TEST(Preconditions, AShareRoundsInTheWorldsThatAreRefused) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    EXPECT_EQ(why_shares_round({.size = ranks}) != "",
              some_share_rounds<float>(ranks) || some_share_rounds<double>(ranks))
        << ranks;
}

// Shows the failure on cases that a hash chooses, so that searches go everywhere.
struct Chosen : Trials {
  explicit Chosen(const Scenario& scenario) : scenario(scenario) {}
  std::vector<std::optional<Outcome>> run(const std::vector<Case>& cases, Outcome,
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

TEST(Preconditions, EveryCaseThatASearchRunsMeetsThem) {
  for (const auto& scenario : catalogue()) {
    Chosen trials(scenario);
    Search search(trials);
    search.allow(TrialTime::max(), 300);
    shrink(scenario, scenario.draw(3, 60), search);
    EXPECT_GT(search.runs(), 0) << scenario.name;
  }
}

class ACaseNearADrawnOne : public ::testing::Test {
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

// True of a case that would be a counterexample against any subject.
bool fails(const Case& c, const Verdict& verdict) {
  if (!is_failure(verdict.kind) && verdict.kind != Verdict::Kind::inconclusive) return false;
  ADD_FAILURE() << c.scenario << " " << c.value.dump() << "\n"
                << verdict.signature() << "\n"
                << verdict.findings.front().diagnosis;
  return true;
}

// From a drawn case down, by steps that chance chooses, so that each field gets small while others
// are still large.
bool some_smaller_case_fails(const Scenario& scenario, uint64_t seed,
                             const std::function<Verdict(const Case&)>& verdict_of) {
  std::mt19937_64 chance(seed);
  Case c = scenario.draw(seed, 60);
  for (;;) {
    const auto smaller = within_precondition(scenario, scenario.smaller(c));
    if (smaller.empty()) return false;
    c = smaller[chance() % smaller.size()];
    if (fails(c, verdict_of(c))) return true;
  }
}

TEST_F(ACaseNearADrawnOne, HoldsOnLockstepWhereItIsSmallerAndMeetsThePrecondition) {
  const uint64_t starts = kIsCampaign ? 60 : 2;
  for (const auto& scenario : catalogue()) {
    if (scenario.draws <= 1) continue;  // a canary is to fail
    const auto verdict_of = [&](const Case& c) { return verdict(scenario, c); };
    for (uint64_t seed = 0; seed < starts; ++seed)
      if (some_smaller_case_fails(scenario, seed, verdict_of)) break;
  }
}

// Returns the other choices for a list: those of one element, and the list with its last element
// replaced.
std::vector<Json> other_choices(const Leaf& leaf, const Json& value) {
  if (leaf.type == Leaf::Type::truth) return {!value.get<bool>()};
  std::vector<Json> all;
  for (const auto& choice : leaf.allowed.choices) {
    if (leaf.type == Leaf::Type::word) all.emplace_back(choice);
    if (leaf.type != Leaf::Type::list) continue;
    all.push_back(Json::array({choice}));
    if (value.empty()) continue;
    all.push_back(value);
    all.back().back() = choice;
  }
  std::erase(all, value);
  return all;
}

// The case with that value of a field; none where the scenario does not parse it, or refuses it.
std::optional<Case> with(const Scenario& scenario, const Case& c, const Leaf& leaf,
                         const Json& value) {
  auto changed = c.value;
  changed[pointer_to(leaf)] = value;
  try {
    auto other = scenario.parse(changed);
    if (scenario.unmet_precondition(other).empty()) return other;
  } catch (const FieldError&) {  // not used by this scenario
  }
  return {};
}

constexpr uint64_t kDrawsForOne = 10;  // that meets the precondition

// `run --set` runs such cases, and files hold them. Each value is tried in one case, in a campaign
// in many.
TEST_F(ACaseNearADrawnOne, HoldsOnLockstepWhereAFieldHasAnotherValueOrIsRefused) {
  const uint64_t tries = kIsCampaign ? 40 : 1;
  int runs = 0;
  for (const auto& scenario : catalogue()) {
    if (scenario.draws <= 1) continue;  // a canary is to fail
    uint64_t seed = 1000;
    const auto some_case_fails = [&](const Leaf& leaf) {
      const auto count = other_choices(leaf, scenario.smallest().value.at(pointer_to(leaf))).size();
      for (uint64_t i = 0; i < count * tries; ++i) {
        std::optional<Case> c;
        for (const auto last = seed + kDrawsForOne; !c && seed < last;) {
          const auto base = scenario.draw(++seed, 40);
          const auto values = other_choices(leaf, base.value.at(pointer_to(leaf)));
          c = with(scenario, base, leaf, values[i % values.size()]);
        }
        runs += c.has_value();
        if (c && fails(*c, verdict(scenario, *c))) return true;
      }
      return false;
    };
    for (const auto& leaf : scenario.leaves)
      if (!leaf.path.starts_with("world.")) some_case_fails(leaf);
  }
  EXPECT_GE(runs, kIsCampaign ? 10'000 : 300);
}

}  // namespace
}  // namespace lockstep::scenarios
