#include "harness/cases/scenario.h"
#include "scenarios/catalogue.h"
#include "scenarios/programs/actions.h"
#include "scenarios/programs/draw/draw.h"
#include "scenarios/programs/values.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

namespace lockstep::scenarios::programs {
namespace {

std::vector<Op> operations(const ProgramSpec& c) {
  std::vector<Op> out;
  for (const auto& action : actions_of(c)) out.push_back(action.step.op);
  return out;
}

TEST(ProgramSpecs, LeaveOutStepsThatMeanNothing) {
  ProgramSpec c{.world = {.size = 2},
                .steps = {{.op = Op::backward}, {}, {.op = Op::backward}, {.op = Op::backward}, {}},
                .layers = {{}, {}}};
  EXPECT_EQ(operations(c), (std::vector{Op::forward, Op::backward, Op::forward}));
  // Without find_unused_parameters only a local forward may leave out layers.
  c.steps = {{.unused = {1}}, {.no_sync = 1, .unused = {0, 1}}, {.unused = {4}}};
  EXPECT_EQ(actions_of(c).size(), 2u);
  c.options.find_unused_parameters = true;
  EXPECT_EQ(actions_of(c).size(), 3u);
  c.steps.push_back({.left_out_of_loss = {2}});
  EXPECT_EQ(actions_of(c).size(), 4u);
  c.outputs = 2;
  c.options.find_unused_parameters = false;
  EXPECT_EQ(actions_of(c).size(), 2u);
  c.options.find_unused_parameters = true;
  // A static graph is that of the first forward.
  c.options.static_graph = true;
  EXPECT_EQ(actions_of(c).size(), 1u);
}

TEST(ProgramSpecs, AnUpdateWaitsForGraphsThatHaveSavedParameters) {
  ProgramSpec c{.world = {.size = 2}, .steps = {{}, {.op = Op::update}}, .layers = {{}}};
  EXPECT_EQ(actions_of(c).size(), 2u);
  c.layers.front().use = Use::squared;
  EXPECT_EQ(actions_of(c).size(), 1u);
}

TEST(ProgramSpecs, NeedAReplicaForForwardsOfOne) {
  const ProgramSpec c{.world = {.size = 3},
                      .steps = {{},
                                {.op = Op::unwrap},
                                {},
                                {.op = Op::regroup, .cut = 1},
                                {.op = Op::evaluate},
                                {.op = Op::bare},
                                {.op = Op::backward},
                                {.op = Op::wrap, .cut = 2},
                                {},
                                {.op = Op::regroup, .cut = 4}}};
  EXPECT_EQ(operations(c), (std::vector{Op::forward, Op::unwrap, Op::bare, Op::backward, Op::wrap,
                                        Op::forward, Op::regroup}));
  EXPECT_FALSE(actions_of(c)[3].is_synchronised) << "its replica is gone";
  EXPECT_EQ(parts_of_world(c, 4), (std::vector<std::vector<int>>{{0}, {1, 2}}));
  EXPECT_EQ(multiple_of_divisors(c), 6);
}

TEST(ProgramSpecs, AGraphLacksTheParametersUnfrozenSince) {
  ProgramSpec c{.world = {.size = 2},
                .steps = {{}, {.op = Op::unfreeze}, {.op = Op::backward}},
                .layers = {{.frozen = FrozenPart::all}}};
  EXPECT_EQ(actions_of(c).size(), 2u);
  c.options.find_unused_parameters = true;
  EXPECT_EQ(actions_of(c).size(), 3u);
}

TEST(ProgramSpecs, ABackwardKnowsItsGraphs) {
  const ProgramSpec c{.world = {.size = 2},
                      .steps = {{.no_sync = 1},
                                {},
                                {.op = Op::backward, .of = 2},
                                {},
                                {.op = Op::backward_retained, .of = 1},
                                {.op = Op::backward_together}}};
  const auto actions = actions_of(c);
  ASSERT_EQ(actions.size(), 6u);
  EXPECT_EQ(actions[2].graphs, std::vector<int>{0});
  EXPECT_FALSE(actions[2].is_synchronised);
  EXPECT_EQ(actions[4].graphs, std::vector<int>{3});
  EXPECT_TRUE(actions[4].closed.empty());
  EXPECT_EQ(actions[5].graphs, (std::vector<int>{1, 3}));
  EXPECT_TRUE(actions[5].is_synchronised);
}

TEST(ProgramSpecs, DrawnOnesHoldOnlyStepsThatMeanSomethingAndEveryOperation) {
  const auto specs_of = scenario_in_catalogue("programs.match_single_process");
  std::set<Op> seen;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto c = from_json<ProgramSpec>(specs_of.draw(seed, 100).value, "case");
    const auto actions = actions_of(c);
    std::set<int> numbers;
    for (const auto& action : actions) {
      numbers.insert(action.number);
      seen.insert(action.step.op);
    }
    EXPECT_EQ(numbers.size(), c.steps.size());
  }
  EXPECT_EQ(seen.size(), 28u);
}

TEST(ProgramSpecs, RecordsOfLargeTensorsShowEveryElement) {
  const auto value = torch::arange(5000, at::kFloat);
  const auto form = form_of(value);
  const auto whole = shown("w", value, form);
  ASSERT_EQ(whole.size(), 2u);
  for (const int64_t at : {0, 2500, 4999}) {
    auto other = value.clone();
    other[at] += 1;
    EXPECT_FALSE(at::equal(shown("w", other, form).back().value, whole.back().value)) << at;
  }
  auto swapped = value.clone();
  swapped[2000] = 3000;
  swapped[3000] = 2000;
  EXPECT_FALSE(at::equal(shown("w", swapped, form).back().value, whole.back().value));
  auto negative = torch::zeros({5000}), zeros = torch::zeros({5000});
  negative.neg_();
  EXPECT_TRUE(
      at::equal(shown("w", negative, form).back().value, shown("w", zeros, form).back().value));
  EXPECT_EQ(shown("w", at::Tensor(), form).size(), 2u);
}

}  // namespace
}  // namespace lockstep::scenarios::programs
