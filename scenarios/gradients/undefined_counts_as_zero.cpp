// A gradient that autograd leaves undefined on some ranks counts as zero in the average.
//
// A branch's backward may return no gradient: a custom function that cuts it, an output that was
// not used. The parameter's hook is still called, with an undefined gradient, and its place in the
// bucket must be cleared: otherwise the values of the step before would be averaged once more.
// Silent ranks are drawn for each step and branch, never in the first step, so that stale values
// exist. Gradients are cleared to none before each step.
#include "harness/base/values.h"
#include "scenarios/cases/branches.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"

#include <torch/torch.h>

namespace lockstep::scenarios::gradients_undefined_counts_as_zero {
namespace {

class Cut : public torch::autograd::Function<Cut> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input) {
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    return {at::Tensor()};
  }
};

class Silenced : public Network {
 public:
  using Network::Network;
  std::function<bool(int branch)> is_cut = nullptr;

 protected:
  at::Tensor passed_on(int branch, const at::Tensor& output) override {
    return is_cut(branch) ? Cut::apply(output) : output;
  }
};

void program(const Training& c, RankContext& here) {
  const auto model = std::make_shared<Silenced>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  for (int step = 0; step < c.steps; ++step) {
    model->is_cut = [&](int branch) { return is_silent(c, step, here.rank(), branch); };
    model->zero_grad(/*set_to_none=*/true);
    here.enter(step, "forward");
    const auto loss = loss_of_part(c, batch_index(c, step, 0), here.rank(), *replica);
    here.enter(step, "backward");
    replica->backward(loss);
    here.enter(step, "after backward");
    record_gradients(here, *model);
  }
}

// The average with each silent rank's contribution replaced by `instead`.
template <class Instead>
reference::Rounded average(const Training& c, const ExpectedStep& step, int s, size_t p,
                           const std::string& name, const Instead& instead) {
  std::vector<reference::Rounded> by_rank;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto& own = step.local()[static_cast<size_t>(rank)][p];
    by_rank.push_back(is_silent(c, s, rank, branch_of(name)) ? instead(rank, own) : own);
  }
  return reference::Arithmetic(format_of(c)).average(by_rank);
}

Findings silent_ranks_count_as_zero(const Training& c, const History& h) {
  Findings out = gradients_are_defined(h.rows("after backward"));
  const auto steps = expected_steps(c);
  const auto parameters = initial_parameters(c, 0);
  for (int s = 0; s < c.steps; ++s) {
    const auto& step = steps[static_cast<size_t>(s)];
    std::vector<Comparison> rows;
    for (size_t p = 0; p < parameters.size(); ++p) {
      const auto& name = parameters[p].name;
      const auto zeros = [](int, const reference::Rounded& own) {
        return reference::given(at::zeros_like(own.value));
      };
      rows.push_back(
          compared(c, h.row({s, "after backward"}, name), average(c, step, s, p, name, zeros)));
      rows.back().explanations = [&, p, s, name] {
        if (s == 0) return Explanations();
        const auto stale = [&](int rank, const reference::Rounded&) {
          return steps[static_cast<size_t>(s - 1)].local()[static_cast<size_t>(rank)][p];
        };
        return Explanations{recorded_instead(
            {"last_steps_gradient",
             "a rank without a gradient put in what the step before had left in the bucket"},
            {recorded(average(c, step, s, p, name, stale).value, dtype_of(c))})};
      };
    }
    out += equal("A rank without a gradient must count as zero in the average", rows);
  }
  return out;
}

std::vector<Training> every_small_one() {
  std::vector<Training> all;
  for (const int world : {2, 3})
    for (const int64_t cap : {0, 1})
      for (const uint64_t seed : {1u, 2u, 3u})
        all.push_back({.world = {.size = world},
                       .steps = 3,
                       .network = {.branches = 2},
                       .batch_log2 = 2,
                       .options = {.bucket_cap_bytes = cap},
                       .seed = seed});
  return all;
}

// Such a gradient stays undefined if it is so on all ranks.
std::string why_it_counts_as_unused(const Training& c) {
  return c.options.find_unused_parameters
             ? "find_unused_parameters counts an undefined gradient as unused"
             : "";
}

rc::Gen<Training> cases() {
  auto drawn = changed(trainings(), [](Training& c) {
    c.options.find_unused_parameters = c.options.skip_all_reduce_unused_params = false;
  });
  return with(std::move(drawn), &Training::steps, rc::gen::inRange(2, 5));
}

}  // namespace

Scenario undefined_counts_as_zero() {
  return scenario<Training>({
      .name = "gradients.undefined_counts_as_zero",
      .claim = "A gradient that a rank's backward leaves undefined counts as zero in the average "
               "that every rank holds.",
      .exactness = "bit-equal · real: bounded",
      .source =
          "c10d's Reducer, mark_variable_ready_dense: an undefined gradient zeroes its place; "
          "docs/semantics.md 2.3",
      .not_covered = "parameters that take no part in the graph",
      .usual_mistake = "leaving a bucket's place as the step before filled it.",
      .tags = {"gradients"},
      .must_catch = {"undefined_gradient_keeps_last_bytes"},
      .draws = 60,
      .start = {.world = {.size = 2}, .steps = 2},
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_it_counts_as_unused,
      .program = program,
      .checks = {silent_ranks_count_as_zero},
      .labels = {{"three ranks and more", 0.25, has_three_ranks<Training>},
                 {"several buckets", 0.15, has_several_buckets},
                 {"several branches", 0.25,
                  [](const Training& c) { return c.network.branches > 1; }}},
      .unused = {"micro_batches", "groups", "optimizer", "learning_rate_log2"},
  });
}

}  // namespace lockstep::scenarios::gradients_undefined_counts_as_zero
