// A rank whose backward throws gets its own exception; every other rank throws in the same
// backward, with a sentence that names the rank; and the next step is averaged as usual.
//
// A rank whose backward ends early has launched only some of its buckets, and its peers wait for
// the others. An implementation that ignores this leaves them waiting until a timeout, with an
// unusable group. The case says where the exception is thrown, between which gradients: the network
// calls the harness from inside each branch's backward.
#include "harness/cases/generators.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"

#include <torch/torch.h>

namespace lockstep::scenarios::failures_exception_in_backward {
namespace {

constexpr const char* kInBackward = "in backward";

// Calls `on_backward`, then passes gradients on.
class Passage : public torch::autograd::Function<Passage> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const std::function<void()>* on_backward) {
    context->saved_data["on_backward"] = reinterpret_cast<int64_t>(on_backward);
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    (*reinterpret_cast<const std::function<void()>*>(context->saved_data["on_backward"].toInt()))();
    return {gradients.front(), at::Tensor()};
  }
};

class Watched : public Network {
 public:
  using Network::Network;
  std::function<void()> on_backward = nullptr;

 protected:
  // The last branch to run forward is the first one backward.
  at::Tensor passed_on(int branch, const at::Tensor& output) override {
    return branch == 0 ? Passage::apply(output, &on_backward) : output;
  }
};

const Injection& planned_failure_of(const Training& c) {
  return c.world.injections.front();
}

std::string why_none_is_planned(const Training& c) {
  const auto& all = c.world.injections;
  const bool is_planned = all.size() == 1 && all.front().kind == InjectionKind::throw_ &&
                          all.front().collective < 0 && all.front().at.phase == kInBackward &&
                          all.front().rank < c.world.size && all.front().at.step + 1 < c.steps;
  return is_planned ? ""
                    : "the case must throw in the backward of one rank, and have a step after it";
}

enum class ReceivedError : int64_t { none, names_the_rank, other };

ReceivedError received_error(const std::exception& error, const Training& c) {
  const auto who =
      "rank " + std::to_string(planned_failure_of(c).rank) + ": an exception was thrown";
  return std::string(error.what()).find(who) == std::string::npos ? ReceivedError::other
                                                                  : ReceivedError::names_the_rank;
}

void program(const Training& c, RankContext& here) {
  refuse_where_the_host_does_not_wait(here, "an exception in backward");
  const auto model = std::make_shared<Watched>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  for (int step = 0; step < c.steps; ++step) {
    model->on_backward = [&] { here.enter(step, kInBackward); };
    model->zero_grad(/*set_to_none=*/true);
    auto received = ReceivedError::none;
    try {
      replica->backward(loss_of_part(c, batch_index(c, step, 0), here.rank(), *replica));
    } catch (const std::exception& error) {
      received = received_error(error, c);
    }
    here.enter(step, "after backward");
    here.record("heard", std::vector<int64_t>{static_cast<int64_t>(received)});
    if (received == ReceivedError::none) record_gradients(here, *model);
  }
}

Findings all_errors_have_its_name(const Training& c, const History& h) {
  const auto& planned = planned_failure_of(c);
  std::vector<Comparison> rows;
  for (int s = 0; s < c.steps; ++s) {
    std::vector<TensorValue> expected;
    for (int rank = 0; rank < c.world.size; ++rank) {
      const auto right = s != planned.at.step   ? ReceivedError::none
                         : rank == planned.rank ? ReceivedError::other
                                                : ReceivedError::names_the_rank;
      expected.push_back(int64_values({static_cast<int64_t>(right)}));
    }
    rows.push_back({.row = h.row({s, "after backward"}, "heard"), .expected = expected});
  }
  return equal(
      "In the backward that throws on one rank, and there alone, every rank must hear of it", rows);
}

Findings the_other_steps_are_averaged(const Training& c, const History& h) {
  Findings out;
  const auto steps = expected_steps(c);
  const auto names = trainable(c);
  for (int s = 0; s < c.steps; ++s) {
    if (s == planned_failure_of(c).at.step) continue;
    std::vector<Comparison> rows;
    for (size_t p = 0; p < names.size(); ++p)
      rows.push_back(compared(c, h.row({s, "after backward"}, names[p]),
                              steps[static_cast<size_t>(s)].average[p]));
    out += equal("A step that did not fail must hold the average, before a failure and after it",
                 rows);
  }
  return out;
}

Training struck(Training c, int rank, int step) {
  c.steps = std::max(c.steps, 2);
  c.world.injections = {{.kind = InjectionKind::throw_,
                         .rank = rank % c.world.size,
                         .at = {step % (c.steps - 1), kInBackward}}};
  return c;
}

std::vector<Training> every_small_one() {
  std::vector<Training> all;
  for (const int world : {2, 3})
    for (int rank = 0; rank < world; ++rank)
      for (const int step : {0, 1})
        for (const int64_t cap : {0, 1})
          all.push_back(struck({.world = {.size = world},
                                .steps = 4,
                                .network = {.branches = 2, .order_by_rank = true},
                                .batch_log2 = 2,
                                .options = {.bucket_cap_bytes = cap},
                                .seed = 1},
                               rank, step));
  return all;
}

rc::Gen<Training> cases() {
  return gen::apply(
      [](const Training& c, int steps, int rank, int step) {
        Training longer = c;
        longer.steps = steps;
        return struck(longer, rank, step);
      },
      trainings(), rc::gen::inRange(2, 5), rc::gen::inRange(0, 4), rc::gen::inRange(0, 4));
}

}  // namespace

Scenario exception_in_backward_reaches_all() {
  return scenario<Training>({
      .name = "failures.exception_in_backward_reaches_all",
      .former_name = "failures.exception_in_backward_is_told",
      .claim = "If one rank's backward throws, every other rank throws in it an error that names "
               "the rank.",
      .in_full = "If one rank's backward throws, every other rank throws in the same backward an "
                 "error that names the rank, and the next step is averaged as usual.",
      .exactness = "named error",
      .source = "docs/semantics.md 0.18",
      .not_covered = "an exception in forward, a rank that does not continue",
      .usual_mistake = "not launching the buckets that the interrupted backward did not reach.",
      .tags = {"failures"},
      .must_catch = {"exception_in_backward_unreported"},
      .draws = 40,
      .start = struck({.world = {.size = 2}, .steps = 2}, 1, 0),
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_none_is_planned,
      .program = program,
      .checks = {all_errors_have_its_name, the_other_steps_are_averaged},
      .labels = {{"three ranks and more", 0.2, has_three_ranks<Training>},
                 {"several buckets", 0.1, has_several_buckets}},
      .unused = {"micro_batches", "groups", "optimizer", "learning_rate_log2"},
  });
}

}  // namespace lockstep::scenarios::failures_exception_in_backward
