// Our DistributedDataParallel beside PyTorch's own reducer: one training, run with either, gives
// the same bits in every gradient, parameter and synchronised buffer of every rank, and the same
// buckets.
//
// The reference says what is right within a bound where numbers round; this says that ours rounds
// as PyTorch does. A gradient is multiplied by fl(1/W) on its way into its bucket, or divided where
// it is kept as a view of it. The ranks are added in one order: ours carries one element more in
// each bucket, so an order that depends on an element's place in its bucket, as a ring's does, is
// another one for the same gradient; where numbers round, simulated worlds take no ring and Gloo's
// have two ranks.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/network.h"
#include "scenarios/subjects/subjects.h"
#include "tests/scenarios/difference.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <iostream>
#include <map>
#include <set>

namespace lockstep::scenarios {
namespace {

constexpr int kSimulated = 1000;
constexpr int kOverGloo = 60;
constexpr Extra kOurFlag{.left_elements = 1};

// Gradients are zeroed in place, not dropped: only then is a view the same one in the next step.
bool keeps_gradients(const Training& c) {
  return c.seed % 2 == 1;
}

bool rounds(const Training& c) {
  if (c.values == Values::real) return true;
  try {
    expected_steps(c);
    return false;
  } catch (const Refused&) {
    return true;
  }
}

// `c`, changed so that no two ways of rounding are both right.
Training comparable(Training c) {
  if (!rounds(c)) return c;
  if (c.world.reduction == ReductionShape::ring) c.world.reduction = ReductionShape::flat;
  return c;
}

rc::Gen<Training> cases() {
  using gen::set;
  using rc::gen::element;
  const auto schedule = gen::build<Schedule>(
      set(&Schedule::policy, element(SchedulePolicy::listed, SchedulePolicy::uniform)),
      set(&Schedule::seed, rc::gen::inRange<uint64_t>(0, 1 << 20)));
  const auto world = gen::build<WorldSpec>(
      set(&WorldSpec::size, element(2, 3, 4, 5)),
      set(&WorldSpec::reduction, element(ReductionShape::flat, ReductionShape::ring,
                                         ReductionShape::tree, ReductionShape::permuted)),
      set(&WorldSpec::schedule, schedule));
  auto drawn = with(with(trainings(), &Training::world, world), &Training::micro_batches,
                    element(1, 1, 2, 3));
  return gen::apply(
      [](Training c, bool is_view) {
        c.options.gradient_as_bucket_view = is_view;
        c.options.batched_grad_copy = false;  // PyTorch 2.11 has none
        if (c.options.static_graph) {
          c.steps = std::max(c.steps, 3);  // it rebuilds its buckets a step later than ours
          c.micro_batches = 1;             // and asserts inside no_sync (docs/semantics.md 0.14)
        }
        return comparable(std::move(c));
      },
      std::move(drawn), rc::gen::arbitrary<bool>());
}

void program(const Training& c, RankContext& here) {
  const auto model = std::make_shared<Network>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  here.enter(0, "wrapped");
  record_parameters(here, *model);
  torch::optim::SGD optimizer(model->parameters(), std::ldexp(1.0, c.learning_rate_log2));
  const auto pass = [&](int step, int micro_batch) {
    here.enter(step, "forward");
    const int batch = batch_index(c, step, micro_batch);
    const auto loss = loss_of_part(c, batch, here.rank(), *replica);
    here.enter(step, "backward");
    replica->backward(loss);
    here.enter(step, "after backward");
    record_gradients(here, *model);
    // With the option off PyTorch leaves them as each rank built them (docs/semantics.md 0.2).
    if (c.options.broadcast_buffers) record_buffers(here, *model);
  };
  for (int step = 0; step < c.steps; ++step) {
    // Not the optimizer's, which detaches in place: views refuse that.
    model->zero_grad(/*set_to_none=*/!keeps_gradients(c));
    for (int m = 0; m + 1 < c.micro_batches; ++m) replica->no_sync([&] { pass(step, m); });
    pass(step, c.micro_batches - 1);
    if (c.optimizer == OptimizerKind::sgd) optimizer.step();
    here.enter(step, "after update");
    record_parameters(here, *model);
  }
}

Scenario same_training() {
  return scenario<Training>({.name = "differential.same_training",
                             .claim = "Two subjects show the same.",
                             .exactness = "bit-equal",
                             .source = "this test",
                             .not_covered = "what is right",
                             .usual_mistake = "",
                             .tags = {},
                             .must_catch = {},
                             .start = {.world = {.size = 2}},
                             .cases = cases(),
                             .program = program,
                             .checks = {}});
}

// How many of the cases had what.
class Tally {
 public:
  void add(const Training& c, const History& history) {
    const bool is_real = c.values == Values::real, is_view = c.options.gradient_as_bucket_view;
    const bool goes_on = c.steps > 1, keeps = keeps_gradients(c);
    const size_t buckets = layouts(history.ranks().front()).back().buckets.size();
    add("worlds of " + std::to_string(c.world.size), true);
    add("exact", !rounds(c));
    add("real", is_real);
    add("real in worlds of 3 or 5", is_real && c.world.size % 2 == 1);
    add("steps", goes_on);
    add("sgd", goes_on && c.optimizer == OptimizerKind::sgd);
    add("uneven parts", has_uneven_parts(c));
    add("several buckets", goes_on && buckets > 1);
    add("branches by rank", goes_on && c.network.order_by_rank && c.network.branches > 1);
    add("no_sync", c.micro_batches > 1);
    add("copies", !is_view);
    add("new views", is_view && !keeps);
    add("kept views", is_view && keeps && goes_on);
    add("kept views of real numbers", is_view && keeps && goes_on && is_real);
    add("buffers", c.options.broadcast_buffers && !c.network.buffers.empty());
    add("unused looked for", c.options.find_unused_parameters && !c.options.static_graph);
    add("static graphs", c.options.static_graph);
    add("frozen parameters", c.network.frozen != FrozenDtype::none);
    add("rings", c.world.reduction == ReductionShape::ring);
    add("real in another order", is_real && c.world.reduction != ReductionShape::flat);
  }

  void expect_each(const char* where, int at_least, const std::set<std::string>& left_out = {}) {
    for (const auto& what : left_out) counted_.erase(what);
    std::cout << where;
    for (const auto& [what, number] : counted_) std::cout << " · " << what << " " << number;
    std::cout << "\n";
    for (const auto& [what, number] : counted_) EXPECT_GE(number, at_least) << what;
  }

 private:
  static bool has_uneven_parts(const Training& c) {
    const auto samples = [&](int rank) {
      const auto part = part_of_batch(c, rank);
      return part.end - part.begin;
    };
    for (int rank = 1; rank < c.world.size; ++rank)
      if (samples(rank) != samples(0)) return true;
    return false;
  }
  void add(const std::string& what, bool has_it) { counted_[what] += has_it; }

  std::map<std::string, int> counted_;
};

// One lane for all, made before a reference is computed: that starts threads.
class Differential : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    lanes_ = forked_lanes({}, {scenario_}, built_in_subjects(), 1, {.ranks_most = 5});
  }
  static void TearDownTestSuite() { lanes_.clear(); }

  static History run(const Training& c, const char* subject, const std::string& tier = "sim") {
    return lanes_.front()->run(scenario_, {scenario_.name, to_json(c)},
                               {subject, tier, tier == "sim" ? "memory" : "gloo"},
                               {std::chrono::minutes(1)});
  }

  static Training drawn(int number) {
    constexpr int kSmallest = 20, kSizes = 80;
    const auto c = scenario_.draw(static_cast<uint64_t>(number), kSmallest + number % kSizes);
    return from_json<Training>(c.value, "case");
  }

  static inline const Scenario scenario_ = same_training();
  static inline std::vector<std::unique_ptr<Tier>> lanes_;
};

TEST_F(Differential, AThousandSimulatedTrainingsHavePyTorchsBitsAndBuckets) {
  Tally tally;
  for (int i = 0; i < kSimulated; ++i) {
    const auto c = drawn(i);
    const auto ours = run(c, "lockstep");
    ASSERT_EQ(difference(ours, run(c, "c10d"), kOurFlag), "") << i << " " << to_json(c);
    tally.add(c, ours);
  }
  tally.expect_each("simulated", 25);
}

TEST_F(Differential, TrainingsOverGlooHavePyTorchsBitsAndBuckets) {
  Tally tally;
  for (int i = 0; i < kOverGloo; ++i) {
    auto c = drawn(kSimulated + i);
    if (rounds(c)) c.world.size = 2;
    const auto ours = run(c, "lockstep", "warm");
    ASSERT_EQ(difference(ours, run(c, "c10d", "warm"), kOurFlag), "") << i << " " << to_json(c);
    tally.add(c, ours);
  }
  tally.expect_each("over Gloo", 1, {"real in worlds of 3 or 5", "rings", "real in another order"});
}

const Training kCase{.world = {.size = 3},
                     .steps = 3,
                     .network = {.hidden = {{.width = 4, .bias = true}},
                                 .branches = 2,
                                 .inputs = 3,
                                 .order_by_rank = true},
                     .batch_log2 = 4,
                     .shares = {1, 3},
                     .optimizer = OptimizerKind::sgd,
                     .learning_rate_log2 = -2,
                     .values = Values::real,
                     .seed = 8};

// The comparison can fail: on other data, other buckets, and one bit.
TEST_F(Differential, WhatDiffersIsFound) {
  const auto ours = run(kCase, "lockstep");
  ASSERT_EQ(difference(ours, run(kCase, "c10d"), kOurFlag), "");
  ASSERT_EQ(difference(ours, run(kCase, "naive"), kOurFlag), "");

  auto other = kCase;
  other.seed = 10;
  EXPECT_NE(difference(ours, run(other, "naive"), kOurFlag), "");

  other = kCase;
  other.options.bucket_cap_bytes = 16;
  EXPECT_NE(difference(ours, run(other, "c10d"), kOurFlag).find("rank 0: buckets"),
            std::string::npos);

  auto ranks = run(kCase, "c10d").ranks();
  auto& last = std::get<Observation>(ranks.back().events.back().what);
  last.value.bytes.front() ^= std::byte{1};
  EXPECT_NE(difference(ours, History(ranks), kOurFlag).find("rank 2: step 2, after update"),
            std::string::npos);
}

// Why worlds whose numbers round take no ring.
TEST_F(Differential, InARingTheFlagOfABucketShowsInLastBits) {
  auto ring = kCase;
  ring.world.reduction = ReductionShape::ring;
  EXPECT_NE(difference(run(kCase, "c10d"), run(ring, "c10d")), "");
  EXPECT_NE(difference(run(ring, "lockstep"), run(ring, "c10d"), kOurFlag), "");
}

}  // namespace
}  // namespace lockstep::scenarios
