// PyTorch's reducer as a subject: that it is driven as Python drives it shows in what its options
// do. Its results without them are compared with ours in differential_test.cpp.
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"
#include "scenarios/cases/network.h"
#include "scenarios/subjects/subjects.h"
#include "tests/scenarios/difference.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::scenarios {
namespace {

// The last branch, on odd ranks; `changes`: left out in every second forward.
enum class Last { in_use, times_zero, left_out, changes };

class Branches : public Network {
 public:
  Branches(const Training& c, int rank, Last last)
      : Network(c, build_seed(c, rank)), last_branch_(c.network.branches - 1), last_(last) {
    if (rank % 2 == 0) last_ = Last::in_use;
  }

 private:
  at::Tensor passed_on(int branch, const at::Tensor& output) override {
    if (branch != last_branch_ || last_ == Last::in_use) return output;
    const bool is_left_out =
        last_ == Last::changes ? forwards_++ % 2 == 1 : last_ == Last::left_out;
    return (is_left_out ? output.detach() : output) * 0;
  }

  const int last_branch_;
  Last last_;
  int forwards_ = 0;
};

template <Last kLast>
void program(const Training& c, RankContext& here) {
  const auto model = std::make_shared<Branches>(c, here.rank(), kLast);
  const auto replica = wrap(here, model, c.options);
  for (int step = 0; step < c.steps; ++step) {
    model->zero_grad(/*set_to_none=*/true);
    for (int m = 0; m < c.micro_batches; ++m) {
      here.enter(step, "forward");
      const int batch = batch_index(c, step, m);
      const auto loss = loss_of_part(c, batch, here.rank(), *replica);
      here.enter(step, "backward");
      replica->backward(loss);
      here.enter(step, "after backward");
      record_gradients(here, *model);
    }
  }
}

Scenario run(const char* name, void (*program)(const Training&, RankContext&)) {
  return scenario<Training>({.name = name,
                             .claim = "PyTorch's options do what it says of them.",
                             .exactness = "bit-equal",
                             .source = "torch.nn.parallel.DistributedDataParallel",
                             .not_covered = "",
                             .usual_mistake = "",
                             .tags = {},
                             .must_catch = {},
                             .start = {.world = {.size = 2}},
                             .cases = rc::gen::just(Training{.world = {.size = 2}}),
                             .program = program,
                             .checks = {}});
}

const Scenario kInUse = run("c10d.in_use", program<Last::in_use>);
const Scenario kTimesZero = run("c10d.times_zero", program<Last::times_zero>);
const Scenario kLeftOut = run("c10d.left_out", program<Last::left_out>);
const Scenario kChanges = run("c10d.changes", program<Last::changes>);

// The gradients alone: with find_unused_parameters buckets are never laid out anew.
History gradients_of(const History& history) {
  auto ranks = history.ranks();
  for (auto& rank : ranks)
    std::erase_if(rank.events, [](const Event& event) {
      return std::holds_alternative<BucketLayout>(event.what);
    });
  return History(std::move(ranks));
}

Training training(const WrapOptions& options) {
  return {.world = {.size = 3},
          .steps = 4,
          .network = {.hidden = {{.width = 2, .bias = true}}, .branches = 2, .inputs = 3},
          .batch_log2 = 3,
          .shares = {1, 3},
          .options = options,
          .values = Values::real,
          .seed = 2};
}

// Two passes a step, each of them synchronised: the second finds the gradients of the first.
Training keeping(Training c, int world_size) {
  c.micro_batches = 2;
  c.world.size = world_size;
  return c;
}

class C10dSubject : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    lanes_ = forked_lanes({}, {kInUse, kTimesZero, kLeftOut, kChanges}, Subjects{c10d_subject()}, 1,
                          {.ranks_most = 4});
  }
  static void TearDownTestSuite() { lanes_.clear(); }

  static History run(const Scenario& scenario, const Training& c) {
    return lanes_.front()->run(scenario, {scenario.name, to_json(c)}, {"c10d", "sim", "memory"},
                               {std::chrono::minutes(1)});
  }

 private:
  static inline std::vector<std::unique_ptr<Tier>> lanes_;
};

const std::vector<WrapOptions> kThatFindUnused{
    {.bucket_cap_bytes = 16, .find_unused_parameters = true},
    {.find_unused_parameters = true, .gradient_as_bucket_view = true},
    {.find_unused_parameters = true, .skip_all_reduce_unused_params = true},
    {.bucket_cap_bytes = 16, .static_graph = true},
    {.find_unused_parameters = true, .static_graph = true},
    {.gradient_as_bucket_view = true, .static_graph = true},
};

TEST_F(C10dSubject, WhereNothingIsUnusedLookingForItChangesNothing) {
  const auto plain = gradients_of(run(kInUse, training({})));
  for (const auto& options : kThatFindUnused)
    EXPECT_EQ(difference(gradients_of(run(kInUse, training(options))), plain), "")
        << to_json(options);
}

TEST_F(C10dSubject, ABranchThatARankLeavesOutCountsAsZeroWhereThatIsLookedFor) {
  const auto zeros = gradients_of(run(kTimesZero, training({})));
  for (const auto& options : kThatFindUnused)
    EXPECT_EQ(difference(gradients_of(run(kLeftOut, training(options))), zeros), "")
        << to_json(options);
  const auto without = run(kLeftOut, training({}));
  for (const auto& rank : without.ranks()) EXPECT_NE(rank.ending.kind, Ending::Kind::returned);
  const auto& left_out = without.ranks()[1].ending;
  EXPECT_EQ(left_out.kind, Ending::Kind::threw) << left_out.why;
  EXPECT_NE(left_out.why.find("Expected to have finished reduction"), std::string::npos)
      << left_out.why;
}

// The reducer logs that its graph is not static, through a logger that it takes to be there.
TEST_F(C10dSubject, WhatIsUnusedMayChangeFromStepToStep) {
  const auto options = WrapOptions{.find_unused_parameters = true};
  const auto zeros = gradients_of(run(kTimesZero, training({})));
  EXPECT_EQ(difference(gradients_of(run(kChanges, training(options))), zeros), "");
}

TEST_F(C10dSubject, AViewIsMultipliedWhenItIsNewAndDividedWhenItWasKept) {
  const Training copies = training({}), views = training({.gradient_as_bucket_view = true});
  EXPECT_EQ(difference(run(kInUse, views), run(kInUse, copies)), "");
  const auto kept = [](const Training& c, int world_size) {
    return gradients_of(run(kInUse, keeping(c, world_size)));
  };
  EXPECT_EQ(difference(kept(views, 4), kept(copies, 4)), "") << "a power of two divides exactly";
  EXPECT_NE(difference(kept(views, 3), kept(copies, 3)), "");
}

TEST_F(C10dSubject, WhatItLacksIsRefused) {
  const auto batched = run(kInUse, training({.batched_grad_copy = true}));
  for (const auto& rank : batched.ranks())
    EXPECT_EQ(rank.ending.kind, Ending::Kind::refused) << rank.ending.why;
}

}  // namespace
}  // namespace lockstep::scenarios
