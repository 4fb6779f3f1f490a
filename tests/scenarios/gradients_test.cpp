// The gradients' checks on made-up histories: right ones pass, each planted mistake is named.
#include "scenarios/cases/expect.h"
#include "scenarios/catalogue.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace lockstep::scenarios {
namespace {

// The tensor that rank `rank` holds of parameter `p` after the backward of a step.
using Held = std::function<at::Tensor(const ExpectedStep&, size_t p, int rank)>;
using Start = std::function<uint64_t(const Training&, int rank)>;

at::Tensor average(const ExpectedStep& step, size_t p, int) {
  return step.average[p].value;
}
uint64_t rank_zeros(const Training& c, int) {
  return build_seed(c, 0);
}

Verdict judged(const Training& c, const Held& held, const Start& start = rank_zeros) {
  const auto steps = expected_steps(c);
  std::vector<RankHistory> ranks(static_cast<size_t>(c.world.size));
  for (int rank = 0; rank < c.world.size; ++rank) {
    auto& events = ranks[static_cast<size_t>(rank)].events;
    const auto parameters = initial_parameters(c, start(c, rank));
    for (const auto& parameter : parameters)
      events.push_back(
          {{0, "wrapped"}, Observation{parameter.name, recorded(parameter.value, dtype_of(c))}});
    for (int s = 0; s < c.steps; ++s) {
      const auto& step = steps[static_cast<size_t>(s)];
      for (size_t p = 0; p < parameters.size(); ++p) {
        events.push_back(
            {{s, "after backward"},
             Observation{parameters[p].name, recorded(held(step, p, rank), dtype_of(c))}});
        events.push_back({{s, "after update"},
                          Observation{parameters[p].name,
                                      recorded(step.parameters_after[p].value, dtype_of(c))}});
      }
    }
  }
  const auto scenario = scenario_in_catalogue("gradients.match_single_process");
  return judge(scenario, {scenario.name, to_json(c)}, History(std::move(ranks)));
}

std::string pattern(const Training& c, const Held& held, const Start& start = rank_zeros) {
  const auto verdict = judged(c, held, start);
  return verdict.findings.empty() ? "pass" : verdict.findings.front().pattern;
}

const Training kCase{.world = {.size = 3},
                     .steps = 2,
                     .network = {.hidden = {{.width = 2}}, .branches = 2, .inputs = 2},
                     .batch_log2 = 3,
                     .shares = {1, 3},
                     .seed = 11};

TEST(GradientsMatchSingleProcess, EachUsualMistakeIsNamed) {
  const double world = kCase.world.size;
  EXPECT_EQ(pattern(kCase, [&](const ExpectedStep& s, size_t p,
                               int) { return s.average[p].value * world; }),
            "sum_not_average");
  EXPECT_EQ(pattern(kCase, [](const ExpectedStep& s, size_t p,
                              int rank) { return s.local()[static_cast<size_t>(rank)][p].value; }),
            "not_reduced");
  EXPECT_EQ(pattern(kCase,
                    [&](const ExpectedStep& s, size_t p, int rank) {
                      return s.local()[static_cast<size_t>(rank)][p].value / world;
                    }),
            "scaled_not_reduced");
  EXPECT_EQ(pattern(kCase, average, build_seed), "own_initial_state");
}

// Rank 1 filled the first branch's slot with the second's gradient, and the reverse.
TEST(GradientsMatchSingleProcess, ParametersAveragedUnderEachOthersNamesAreNamed) {
  const auto mixed = [](const ExpectedStep& s, size_t p, int rank) {
    const size_t half = s.average.size() / 2;
    const auto slot_of = [&](size_t parameter, size_t of_rank) {
      return of_rank == 1 ? (parameter + half) % s.average.size() : parameter;
    };
    auto sum = torch::zeros_like(s.average[p].value);
    for (size_t other = 0; other < s.local().size(); ++other)
      sum += s.local()[other][slot_of(slot_of(p, static_cast<size_t>(rank)), other)].value;
    return sum / static_cast<double>(s.local().size());
  };
  EXPECT_EQ(pattern(kCase, mixed), "parameters_mixed");
}

// Rank 0 holds a quarter of the batch, the others three eighths each; each averaged its own
// samples.
TEST(GradientsMatchSingleProcess, AnAverageOfAveragesIsNamed) {
  Training c = kCase;
  c.shares = {2, 3, 3};
  const auto unweighted = [&](const ExpectedStep& s, size_t p, int) {
    auto sum = torch::zeros_like(s.average[p].value);
    for (int rank = 0; rank < 3; ++rank) {
      const auto part = part_of_batch(c, rank);
      sum += s.local()[static_cast<size_t>(rank)][p].value * 8.0 /
             (3.0 * static_cast<double>(part.end - part.begin));
    }
    return sum / 3;
  };
  EXPECT_EQ(pattern(c, unweighted), "average_of_averages");
}

TEST(GradientsMatchSingleProcess, RealNumbersMayRoundWithinTheBoundAndNoFurther) {
  Training c = kCase;
  c.values = Values::real;
  const auto off_by = [](double bounds) {
    return [bounds](const ExpectedStep& s, size_t p, int) {
      return s.average[p].value + s.average[p].error * bounds;
    };
  };
  EXPECT_EQ(pattern(c, off_by(0)), "pass");
  EXPECT_EQ(pattern(c, off_by(0.5)), "pass");
  EXPECT_NE(pattern(c, off_by(4)), "pass");
  const auto sum = [](const ExpectedStep& s, size_t p, int) { return s.average[p].value * 3; };
  EXPECT_EQ(pattern(c, sum), "sum_not_average");
}

TEST(GradientsMatchSingleProcess, RanksWithinTheBoundMustAgreeWithEachOther) {
  Training c = kCase;
  c.values = Values::real;
  const auto apart = [](const ExpectedStep& s, size_t p, int rank) {
    return s.average[p].value + s.average[p].error * (rank == 2 ? 0.5 : 0);
  };
  const auto verdict = judged(c, apart);
  ASSERT_EQ(verdict.kind, Verdict::Kind::fail);
  EXPECT_EQ(verdict.findings.front().rule, "Every rank must hold the same bits as the others");
}

TEST(GradientsMatchSingleProcess, OneBitOnOneRankAtTheLastStepIsFound) {
  int calls = 0;
  const int last = 2 * static_cast<int>(initial_parameters(kCase, 0).size()) * 3;
  const auto one_bit = [&](const ExpectedStep& s, size_t p, int) {
    auto value = s.average[p].value.clone();
    if (++calls == last) value.view(-1)[0] += 0x1p-10;
    return value;
  };
  EXPECT_EQ(judged(kCase, one_bit).kind, Verdict::Kind::fail);
}

}  // namespace
}  // namespace lockstep::scenarios
