// SyncBatchNorm's checks on made-up histories: right ones pass, each planted mistake is named.
#include "harness/cases/scenario.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/catalogue.h"
#include "scenarios/sync_batch_norm/expected.h"
#include "scenarios/sync_batch_norm/output_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace lockstep::scenarios::sync_batch_norm {
namespace {

const std::vector<std::pair<const char*, std::vector<const char*>>> kPhases{
    {"forward", {kOutput}},
    {"backward", {kInputGradient, kWeightGradient, kBiasGradient}},
    {"after step", {kRunningMean, kRunningVar, kBatches}}};

// The history of a rank that sees `steps`; values for all ranks may be one.
History history_of(const Layer& c, const std::vector<Step>& steps) {
  std::vector<RankHistory> ranks(static_cast<size_t>(c.world.size));
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t s = 0; s < steps.size(); ++s) {
      const auto step = static_cast<int>(s);
      ranks[rank].events.push_back(
          {{step, "forward"}, Observation{kOutputLayout, expected_layouts(c)[rank]}});
      for (const auto& [phase, names] : kPhases)
        for (const char* name : names) {
          if (!steps[s].contains(name)) continue;
          const auto& values = steps[s].at(name).values;
          ranks[rank].events.push_back(
              {{step, phase}, Observation{name, values.size() == 1 ? values[0] : values[rank]}});
        }
    }
  return History(std::move(ranks));
}

Verdict judged(const Layer& c, const History& history) {
  const auto scenario = scenario_in_catalogue("sync_batch_norm.matches_single_process");
  return judge(scenario, {scenario.name, to_json(c)}, history);
}

std::string pattern(const Verdict& verdict) {
  return verdict.findings.empty() ? "pass" : verdict.findings.front().pattern;
}

// Adds to the last element of a float32 value.
void shift(TensorValue& value, double by) {
  float last;
  auto* const at = value.bytes.data() + value.bytes.size() - sizeof(last);
  std::memcpy(&last, at, sizeof(last));
  last = static_cast<float>(last + by);
  std::memcpy(at, &last, sizeof(last));
}

Layer uneven(Values values) {
  return {.world = {.size = 2},
          .steps = 2,
          .norm = {.channels = 3, .momentum_log2 = -3},
          .spatial = {2},
          .samples = {6, 2},
          .values = values,
          .seed = 11};
}

const Layer kCase = uneven(Values::real);

std::vector<Step> with_mistake(const Layer& c, const Mistake& mistake) {
  auto steps = expected_steps(c);
  for (size_t s = 0; s < steps.size(); ++s)
    for (const auto& [name, row] : mistake.steps[s]) steps[s][name] = row;
  return steps;
}

TEST(SyncBatchNormScenario, EachUsualMistakeIsNamed) {
  for (const auto values : {Values::exact, Values::real}) {
    const auto c = uneven(values);
    for (const auto& mistake : mistakes(c))
      EXPECT_EQ(pattern(judged(c, history_of(c, with_mistake(c, mistake)))),
                mistake.diagnosis.pattern);
  }
}

// The largest distance from what is right, in bounds.
double distance_in_bounds(const Step& wrong, const Step& right) {
  double most = 0;
  for (const auto& [name, row] : right) {
    if (!wrong.contains(name) || row.bounds.empty()) continue;
    for (size_t rank = 0; rank < wrong.at(name).values.size(); ++rank) {
      const size_t of = row.values.size() == 1 ? 0 : rank;
      const auto seen = as_doubles(wrong.at(name).values[rank]);
      const auto want = as_doubles(row.values[of]), bound = as_doubles(row.bounds[of]);
      for (size_t i = 0; i < seen.size(); ++i)
        most = std::max(most, std::abs(seen[i] - want[i]) / bound[i]);
    }
  }
  return most;
}

TEST(SyncBatchNormScenario, EachUsualMistakeIsFarOutsideOfTheBounds) {
  for (const auto values : {Values::exact, Values::real}) {
    const auto c = uneven(values);
    const auto right = expected_steps(c);
    for (const auto& mistake : mistakes(c))
      EXPECT_GT(distance_in_bounds(mistake.steps[0], right[0]), 1000) << mistake.diagnosis.pattern;
  }
}

TEST(SyncBatchNormScenario, AGradientThatWasLeftUndefinedIsReported) {
  auto steps = expected_steps(kCase);
  steps[1].at(kWeightGradient).values[1] = no_gradient(kCase);
  const auto verdict = judged(kCase, history_of(kCase, steps));
  EXPECT_EQ(pattern(verdict), "no_gradient");
  EXPECT_EQ(verdict.findings[0].diagnosis,
            "norm.weight gradient: rank 1 has no gradient, at step 1, backward");
}

TEST(SyncBatchNormScenario, TwiceTheBoundInOneElementIsFoundAndHalfOfItIsNot) {
  for (const auto& [phase, names] : kPhases)
    for (const char* name : names) {
      if (name == kBatches) continue;
      for (const double share : {0.5, 2.0}) {
        auto steps = expected_steps(kCase);
        auto& row = steps[1].at(name);
        // The same on all ranks that share a value, so that they still agree with each other.
        shift(row.values.back(), share * as_doubles(row.bounds.back()).back());
        EXPECT_EQ(judged(kCase, history_of(kCase, steps)).kind,
                  share > 1 ? Verdict::Kind::fail : Verdict::Kind::pass)
            << name;
      }
    }
}

TEST(SyncBatchNormScenario, RanksThatDifferWithinTheBoundAreFound) {
  auto steps = expected_steps(kCase);
  auto& row = steps[1].at(kRunningVar);
  row.values.push_back(row.values.front());
  shift(row.values.back(), as_doubles(row.bounds.front()).back() / 2);
  const auto verdict = judged(kCase, history_of(kCase, steps));
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].rule,
            "Every rank must hold the same bits of running statistics as the others");
}

TEST(SyncBatchNormScenario, ACounterMovedByAnEmptyBatchIsFound) {
  auto c = kCase;
  c.samples = {0};
  auto steps = expected_steps(c);
  auto& counter = steps[1].at(kBatches).values.front();
  ++reinterpret_cast<unsigned char&>(counter.bytes.front());
  EXPECT_EQ(judged(c, history_of(c, steps)).kind, Verdict::Kind::fail);
}

TEST(SyncBatchNormScenario, AGradientWhereNoneWasAskedForIsFound) {
  auto c = kCase;
  c.upstream = Upstream::some;
  auto steps = expected_steps(c);
  auto& gradients = steps[0].at(kInputGradient).values;
  gradients[1] = gradients[0];
  EXPECT_EQ(pattern(judged(c, history_of(c, steps))), "unexpected_gradient");
}

TEST(SyncBatchNormScenario, ARankThatSendsAnotherDtypeIsFound) {
  auto ranks = history_of(kCase, expected_steps(kCase)).ranks();
  for (const char* dtype : {"float64", "float16"}) {
    const bool first = std::string(dtype) == "float64";
    ranks[first ? 0 : 1].events.push_back(
        {{0, "forward"},
         Collective{
             .op = "allgather", .group = "world", .dtype = dtype, .elements = 6, .done = true}});
  }
  EXPECT_EQ(pattern(judged(kCase, History(ranks))), "mismatched_collectives");
}

TEST(SyncBatchNormScenario, ACaseThatRoundingDecidesIsRefused) {
  auto c = kCase;
  c.samples = {1};
  c.spatial = {};
  c.norm.eps_log2 = -40;
  int refused = 0;
  for (c.seed = 0; c.seed < 40; ++c.seed) {
    try {
      expected_steps(c);
    } catch (const Refused&) {
      ++refused;
    }
  }
  EXPECT_LT(refused, 3);
  c.norm.channels = 512;  // among so many channels some hold nearly equal values
  c.values = Values::exact;
  EXPECT_THROW(expected_steps(c), Refused);
}

}  // namespace
}  // namespace lockstep::scenarios::sync_batch_norm
