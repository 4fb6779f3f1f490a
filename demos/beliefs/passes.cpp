// Beliefs of forwards and backwards: 16, 17 and 18.
#include "demos/beliefs/belief.h"
#include "demos/beliefs/beliefs.h"
#include "demos/beliefs/models.h"
#include "harness/base/text.h"
#include "reports/style.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/subjects/subjects.h"

#include <exception>

namespace lockstep::demos::beliefs {

namespace {

using reports::number_text;

// Two micro-batches; the backward of the first is inside no_sync, in the second run its forward
// too.
void skips_a_reduction(const Run& run) {
  const auto model = std::make_shared<OneWeight>();
  const auto replica = wrap(run.here(), model, {});
  run.enter(1);
  const auto forward = [&](int micro_batch) {
    return replica->forward(samples(micro_batch * run.world() + run.rank(), 1)).sum();
  };
  if (run.is_met()) {
    replica->no_sync([&] { replica->backward(forward(0)); });
  } else {
    const auto loss = forward(0);
    replica->no_sync([&] { replica->backward(loss); });
  }
  run.record("gradient", model->weight.grad());
  run.enter(2);
  replica->backward(forward(1));
  run.record("gradient", model->weight.grad());
}

Outcome the_first_backward_is_local(const Records& records) {
  const auto sent = records.collectives("allreduce", 1);
  return {sent == 0,
          "the first backward issues " + counted(sent, "all-reduce"),
          {column("after backward 0", records, "gradient", 1),
           column("after backward 1", records, "gradient", 2)}};
}

// PyTorch's own reducer, since ours raises in the backward itself. `unused` gets no gradient on any
// rank, so that the bucket of both is never complete.
void lacks_a_gradient(const Run& run) {
  static const auto pytorch = c10d_subject();
  const auto model = std::make_shared<TwoWeights>();
  const auto replica = pytorch.wrap(model, run.here().group(), {});
  bool raised = false;
  try {
    for (int step = 0; step <= (run.is_met() ? 1 : 0); ++step)
      replica->backward(replica->forward(samples(run.rank(), 1)).sum());
  } catch (const std::exception&) {
    raised = true;
  }
  run.record("gradient", model->used.grad());
  run.record("raised", raised ? 1 : 0);
}

Outcome an_error_is_raised(const Records& records) {
  const auto raised = records.by_rank("raised"), held = records.by_rank("gradient");
  const bool is_raised = all_close(raised, 1);
  return {is_raised,
          std::string(is_raised ? "every rank raises an error"
                                : "no rank raises an error, and the ranks hold ") +
              (is_raised        ? ""
               : all_same(held) ? "one gradient"
                                : "the gradients " + spaced(held)),
          {column("gradient", records, "gradient"), column("errors", records, "raised")}};
}

// `unused` takes part in the first step alone.
void leaves_one_out(const Run& run) {
  constexpr double kRate = 0.5, kDecay = 0.1;
  const auto model = std::make_shared<TwoWeights>();
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(kRate).weight_decay(kDecay));
  const auto replica = wrap(run.here(), model, {.find_unused_parameters = true});
  model->uses_both = true;
  replica->backward(replica->forward(samples(run.rank(), 1)).sum());
  optimizer.zero_grad(/*set_to_none=*/run.is_met());
  model->uses_both = false;
  run.record("before", model->unused);
  replica->backward(replica->forward(samples(run.rank(), 1)).sum());
  run.record("gradient", scenarios::gradient_or_nothing(model->unused));
  optimizer.step();
  run.record("after", model->unused);
}

Outcome it_stays(const Records& records) {
  const auto before = records.by_rank("before"), after = records.by_rank("after");
  auto gradients = column("its gradient", records, "gradient");
  for (auto& text : gradients.by_rank)
    if (text.empty()) text = "none";
  return {before == after,
          "weight decay moves it from " + number_text(before.front()) + " to " +
              number_text(after.front()) + ", with the gradient " + gradients.by_rank.front(),
          {column("before", records, "before"), gradients, column("after", records, "after")}};
}

}  // namespace

std::vector<Demo> of_passes() {
  return {
      belief({.number = 16,
              .belief = "no_sync around the backward is enough",
              .condition =
                  "the forward is inside as well: the forward decides whether its backward "
                  "is reduced. And the last micro-batch must be outside",
              .text = "Two micro-batches add up; only the second should be reduced.",
              .unmet = "with the backward alone in no_sync",
              .met = "with forward and backward in no_sync",
              .program = skips_a_reduction,
              .outcome = the_first_backward_is_local,
              .proof = "accumulation.is_decided_at_forward"}),
      belief({.number = 17,
              .belief = "A parameter without a gradient raises an error",
              .condition = "there is another forward: PyTorch's reducer looks there. Lockstep's "
                           "backward raises it itself, on every rank",
              .text =
                  "PyTorch's own reducer, without find_unused_parameters. One of two parameters "
                  "gets no gradient on any rank; rank r's gradient of the other is r + 1, and "
                  "both travel in one bucket.",
              .unmet = "in a program of one step",
              .met = "with a second forward",
              .program = lacks_a_gradient,
              .outcome = an_error_is_raised,
              .proof = "errors.lacking_gradients_are_reported"}),
      belief({.number = 18,
              .belief = "Unused parameters are left alone",
              .condition = "no rank uses them, and gradients were cleared to none: with a gradient "
                           "of zero, decay and momentum still move them",
              .text = "A parameter is used in the first step alone; the second is one of SGD with "
                      "weight decay.",
              .unmet = "where gradients are cleared to zero",
              .met = "where they are cleared to none",
              .program = leaves_one_out,
              .outcome = it_stays,
              .proof = "unused.are_averaged_over_all_ranks"})};
}

}  // namespace lockstep::demos::beliefs
