// No scenario ignores a field that a user can set: for each there is a case in which another value
// gives another history or another verdict. Fields that a scenario does not use are among its
// `unused`, and refused.
#include "harness/cases/draw.h"
#include "harness/history/history.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"
#include "scenarios/catalogue.h"
#include "scenarios/subjects/subjects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::scenarios {
namespace {

constexpr int kDrawnBases = 60;

// Programs hand them to the subject as they are, and to a tier.
bool is_passed_on(const std::string& path) {
  return path.starts_with("world.") || path.starts_with("options.") || path.starts_with("norm.");
}

// The claim is that they make no difference: in another layout, by another way, in another order.
bool makes_no_difference(const std::string& scenario, const std::string& path) {
  static const std::map<std::string, std::set<std::string>> kOfScenarios{
      {"sampler.partitions_the_dataset", {"through_loader", "batch_size"}},
      {"sampler.follows_its_program", {"from_group"}},
      {"checkpoint.resume_is_going_on", {"prefetched", "late_to_load"}},
      {"collectives.give_what_their_names_say", {"descending"}},
      {"accumulation.bare_passes_are_local", {"loss_of"}},
      {"accumulation.graphs_decide", {"of_kept"}},
      {"programs.match_single_process",
       {"order_by_rank", "nested", "environment.flushes_denormals", "environment.default_dtype",
        "environment.is_deterministic", "environment.wraps_without_gradients",
        "environment.threads", "returns_first"}},
      {"buffers.every_kind_is_followed", {"reassigned"}},
      {"averaging.models_follow_the_rule", {"through_optimizer", "given"}},
      {"averaging.sharded_optimizer_is_the_whole", {"without_grad"}},
      {"training.is_one_process", {"overflow.rank", "zero_in_place", "gradient_as_bucket_view"}},
      {"evaluation.counts_each_sample_once", {"batch_size", "with_gradients"}},
      {"join.joinables_are_shadowed", {"gradient_as_bucket_view"}},
      {"sync_batch_norm.matches_single_process", {"threads"}},
      {"sync_batch_norm.keeps_buffers_equal_under_ddp", {"layer_waits_longer"}},
      {"errors.lacking_gradients_are_reported", {"order_by_rank"}}};
  const auto own = kOfScenarios.find(scenario);
  return path == "layout" || path == "gradient_layout" || path == "network.order_by_rank" ||
         (own != kOfScenarios.end() && own->second.contains(path));
}

// No rank leaves a record of what they change: one ends first, or the subject refuses the model.
bool is_not_recorded(const std::string& scenario, const std::string& path) {
  static const std::set<std::string> kNumbers{"batch_log2", "shares", "values", "seed"};
  return (scenario == "failures.reach_every_survivor" ||
          scenario == "replicas.conversion_is_noticed") &&
         kNumbers.contains(path);
}

std::vector<Json> other_values(const Leaf& leaf, const Json& value) {
  const std::vector<Json> words(leaf.allowed.choices.begin(), leaf.allowed.choices.end());
  switch (leaf.type) {
    case Leaf::Type::truth:
      return {!value.get<bool>()};
    case Leaf::Type::word:
      return words;
    case Leaf::Type::seed:
      return {value.get<uint64_t>() + 1};
    case Leaf::Type::real:
      return {value.get<double>() + 1};
    case Leaf::Type::whole:
      return {value.get<int64_t>() + 1, value.get<int64_t>() - 1, value.get<int64_t>() + 3};
    case Leaf::Type::list:
      break;
  }
  auto elements = words;
  for (const auto& element : {Json(0), Json(1), Json(3), Json::object()})
    elements.push_back(element);
  std::vector<Json> all;
  for (const auto& element : elements)
    for (auto list : {Json::array(), value}) {
      list.push_back(element);
      all.push_back(list);
      list.insert(list.begin(), elements.front());
      all.push_back(list);
    }
  return all;
}

class Fields : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    lanes_ = forked_lanes({}, catalogue(), Subjects{lockstep_subject()}, 1);
  }
  static void TearDownTestSuite() { lanes_.clear(); }

  static History run(const Scenario& scenario, const Case& c) {
    return lanes_[0]->run(scenario, c, {"lockstep", "sim", "memory"}, {std::chrono::minutes(5)});
  }

  static std::string history_of(const Scenario& scenario, const Case& c) {
    return hash_of(run(scenario, c));
  }
  static std::string verdict_on(const Scenario& scenario, const Case& c) {
    return std::string(name_of(judge(scenario, c, run(scenario, c)).kind));
  }
  using Shows = decltype(&history_of);

  // A case prints its text once, and only where it is asked for.
  struct Base {
    Case is;
    std::map<Shows, std::string> shown{};
  };

  static bool matters(const Scenario& scenario, const Leaf& leaf, Base& base, Shows shows) {
    auto path = "/" + leaf.path;
    std::replace(path.begin(), path.end(), '.', '/');
    const Json::json_pointer at(path);
    auto& shown = base.shown[shows];
    if (shown.empty()) shown = shows(scenario, base.is);
    for (const auto& value : other_values(leaf, base.is.value.at(at))) {
      auto changed = base.is.value;
      changed[at] = value;
      try {
        const auto c = scenario.parse(changed);
        // A case outside the precondition is refused, and what the bases show is no refusal.
        if (c != base.is &&
            (!scenario.unmet_precondition(c).empty() || shows(scenario, c) != shown))
          return true;
      } catch (const FieldError&) {
        continue;  // not a value of this field
      }
    }
    return false;
  }

 private:
  static inline std::vector<std::unique_ptr<Tier>> lanes_;
};

std::vector<Case> bases_of(const Scenario& scenario) {
  std::vector<Case> all{scenario.smallest()};
  if (const auto every = scenario.every(); !every.empty()) all.push_back(every.back());
  const auto drawn = draw_cases(scenario, {.seed = 5, .cases = kDrawnBases});
  for (size_t i = drawn.size() - std::min<size_t>(drawn.size(), kDrawnBases); i < drawn.size(); ++i)
    all.push_back(drawn[i]);
  return all;
}

TEST_F(Fields, ThatNothingDependsOnAreRefused) {
  int tried = 0;
  for (const auto& scenario : catalogue()) {
    if (scenario.draws <= 1) continue;
    std::vector<Base> bases;
    for (const auto& each : bases_of(scenario)) bases.push_back({each});
    for (const auto& leaf : scenario.leaves) {
      if (is_passed_on(leaf.path) || makes_no_difference(scenario.name, leaf.path) ||
          is_not_recorded(scenario.name, leaf.path))
        continue;
      ++tried;
      const auto matters_by = [&](Shows shows) {
        return std::any_of(bases.begin(), bases.end(),
                           [&](Base& base) { return matters(scenario, leaf, base, shows); });
      };
      // A verdict takes a reference, most often much longer than the case, and few fields need it.
      EXPECT_TRUE(matters_by(history_of) || matters_by(verdict_on))
          << scenario.name << " ignores " << leaf.path;
    }
  }
  EXPECT_GE(tried, 150);
}

TEST_F(Fields, ThatAreUnusedAreRefusedByPathAndTakenAtTheirDefault) {
  const auto scenario = scenario_in_catalogue("replicas.stay_equal");
  EXPECT_EQ(scenario.parse({{"micro_batches", 1}}), scenario.parse(Json::object()));
  try {
    scenario.parse({{"micro_batches", 2}});
    FAIL() << "it was accepted";
  } catch (const FieldError& error) {
    EXPECT_STREQ(error.what(),
                 "case.micro_batches: 2, but replicas.stay_equal does not use it; leave it out, or "
                 "at its default, 1");
  }
}

}  // namespace
}  // namespace lockstep::scenarios
