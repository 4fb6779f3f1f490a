// Beliefs of what keeps replicas equal: 8, 19, 20, 25, 27 and 28.
#include "demos/beliefs/belief.h"
#include "demos/beliefs/beliefs.h"
#include "demos/beliefs/models.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

namespace lockstep::demos::beliefs {

namespace {

using reports::number_text;

constexpr double kLearningRate = 0.1;

double largest_distance(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least;
}

torch::optim::SGD sgd(const Model& model, double rate = kLearningRate, double momentum = 0) {
  return torch::optim::SGD(model.parameters(), torch::optim::SGDOptions(rate).momentum(momentum));
}

// A step on this rank's sample, rank + 1, with the loss (w x)^2 / 2.
void step(Replica& replica, torch::optim::Optimizer& optimizer, const at::Tensor& input) {
  optimizer.zero_grad();
  replica.backward(replica.forward(input).square().sum() / 2);
  optimizer.step();
}

void seeds_differ(const Run& run) {
  const auto own = at::detail::createCPUGenerator(static_cast<uint64_t>(run.rank()));
  const auto model =
      std::make_shared<OneWeight>(torch::randn({1}, own, at::kDouble).item<double>());
  run.record("before", model->weight);
  const auto replica = wrap(run.here(), model, {.init_sync = !run.is_met()});
  run.record("after", model->weight);
}

// The belief is that equal seeds are needed: it holds where unequal ones leave replicas unequal.
Outcome seeds_are_needed(const Records& records) {
  const auto before = records.by_rank("before"), after = records.by_rank("after");
  return {!all_same(after),
          "the weights differ by " + number_text(largest_distance(before)) +
              " before wrapping, by " + number_text(largest_distance(after)) + " after",
          {column("before wrapping", records, "before"), column("after", records, "after")}};
}

constexpr int kSteps = 10;

void edits_a_weight(const Run& run) {
  const auto model = std::make_shared<OneWeight>();
  auto optimizer = sgd(*model);
  const auto replica = wrap(run.here(), model, {});
  if (!run.is_met() && run.rank() == run.world() - 1) {
    const torch::NoGradGuard no_grad;
    model->weight.add_(1);
  }
  for (int each = 0; each <= kSteps; ++each) {
    run.enter(each);
    run.record("weight", model->weight);
    optimizer.zero_grad();
    replica->backward(replica->forward(samples(run.rank(), 1)).sum());
    optimizer.step();
  }
}

Outcome parameters_stay_equal(const Records& records) {
  const auto first = records.by_rank("weight", 0), last = records.by_rank("weight", kSteps);
  return {is_close(largest_distance(last), 0),
          "the weights differ by " + number_text(largest_distance(first)) + " at first, by " +
              number_text(largest_distance(last)) + " after " + std::to_string(kSteps) + " steps",
          {column("weight", records, "weight", 0), column("after 1", records, "weight", 1),
           column("after " + std::to_string(kSteps), records, "weight", kSteps)}};
}

void trains_the_inner_module(const Run& run) {
  const auto model = std::make_shared<OneWeight>();
  const auto replica = wrap(run.here(), model, {});
  for (int each = 0; each < 2; ++each) {
    run.enter(each);
    model->zero_grad();
    const auto input = samples(run.rank(), 1);
    if (run.is_met())
      replica->backward(replica->forward(input).sum());
    else
      model->forward(input).sum().backward();
    run.record("gradient", model->weight.grad());
  }
}

Outcome gradients_agree(const Records& records) {
  const auto held = records.by_rank("gradient", 1);
  return {all_same(held),
          std::string("in the second step the ranks hold ") +
              (all_same(held) ? "one gradient, " + number_text(held.front())
                              : "different gradients, " + spaced(held)),
          {column("gradient, step 0", records, "gradient", 0),
           column("gradient, step 1", records, "gradient", 1)}};
}

void watches_the_loss(const Run& run) {
  const auto model = std::make_shared<OneWeight>();
  constexpr double kSmallRate = 1.0 / 64;  // so that no loss of six ranks grows
  auto optimizer = sgd(*model, kSmallRate);
  const auto replica = wrap(run.here(), model, {});
  for (int each = 0; each < 4; ++each) {
    run.enter(each);
    const auto input = samples(run.rank(), 1);
    optimizer.zero_grad();
    const auto outputs = run.is_met() ? replica->forward(input) : model->forward(input);
    const auto loss = (outputs - 0.5 * input).square().sum() / 2;
    run.is_met() ? replica->backward(loss) : loss.backward();
    optimizer.step();
    run.record("loss", loss);
    run.record("weight", model->weight);
  }
}

Outcome a_falling_loss_is_enough(const Records& records) {
  const auto weights = records.by_rank("weight", 3);
  bool falls = true;
  for (int rank = 0; rank < records.world(); ++rank)
    for (int each = 1; each < 4; ++each)
      falls =
          falls && records.numbers(rank, "loss", each) < records.numbers(rank, "loss", each - 1);
  Outcome out{falls && all_same(weights),
              std::string(falls ? "all losses fall" : "some loss does not fall") +
                  ", and the ranks hold " +
                  (all_same(weights) ? "one weight" : "different weights"),
              {}};
  for (int each = 0; each < 4; ++each)
    out.columns.push_back(column("loss " + std::to_string(each), records, "loss", each));
  out.columns.push_back(column("weight", records, "weight", 3));
  return out;
}

// Two copies of a model: the optimizer of one is built before wrapping, of the other after. The
// belief holds where that makes a difference.
void builds_the_optimizer(const Run& run) {
  for (const bool is_before : {true, false}) {
    const auto model = std::make_shared<OneWeight>();
    std::unique_ptr<torch::optim::SGD> optimizer;
    if (is_before) optimizer = std::make_unique<torch::optim::SGD>(sgd(*model));
    if (run.is_met()) model->replace_weight();  // as a conversion may do
    const auto replica = wrap(run.here(), model, {});
    if (!is_before) optimizer = std::make_unique<torch::optim::SGD>(sgd(*model));
    step(*replica, *optimizer, samples(run.rank(), 1));
    run.record(is_before ? "before" : "after", model->weight);
  }
}

Outcome order_matters(const Records& records) {
  const auto before = records.by_rank("before"), after = records.by_rank("after");
  return {before != after,
          "after a step the weight is " + number_text(before.front()) +
              " with the optimizer built before wrapping, " + number_text(after.front()) +
              " with it built after",
          {column("built before", records, "before"), column("built after", records, "after")}};
}

// Rank 0 alone continues from a checkpoint: its weight, and its optimizer's momentum if that has
// any.
void loads_on_rank_zero(const Run& run) {
  const auto model = std::make_shared<OneWeight>();
  auto optimizer = sgd(*model, kLearningRate, run.is_met() ? 0 : 0.5);
  if (run.rank() == 0) {
    model->weight.mutable_grad() = torch::full({1}, 4.0, at::kDouble);
    optimizer.step();
  }
  const auto replica = wrap(run.here(), model, {});
  run.record("wrapped", model->weight);
  step(*replica, optimizer, samples(run.rank(), 1));
  run.record("stepped", model->weight);
}

Outcome one_load_is_enough(const Records& records) {
  const auto wrapped = records.by_rank("wrapped"), stepped = records.by_rank("stepped");
  return {
      all_same(stepped),
      "the weights differ by " + number_text(largest_distance(wrapped)) + " after wrapping, by " +
          number_text(largest_distance(stepped)) + " after the next step",
      {column("after wrapping", records, "wrapped"), column("after a step", records, "stepped")}};
}

}  // namespace

std::vector<Demo> of_replicas() {
  return {
      belief({.number = 8,
              .belief = "DDP needs the same seed on all ranks",
              .condition = "the initial synchronisation is off, or the values are outside the "
                           "module: a shuffle, a tensor of one's own",
              .text = "Each rank draws its weight with the rank as seed, and wraps it.",
              .unmet = "with init_sync",
              .met = "without init_sync",
              .program = seeds_differ,
              .outcome = seeds_are_needed,
              .proof = "replicas.start_equal"}),
      belief({.number = 19,
              .belief = "DDP keeps the parameters in sync",
              .condition =
                  "nothing but averaged gradients changes them: DDP makes parameters equal "
                  "once, and then reduces gradients alone",
              .text = "All ranks train with SGD. In the first run the last rank adds 1 to its "
                      "weight after wrapping.",
              .unmet = "after a local edit",
              .met = "without one",
              .program = edits_a_weight,
              .outcome = parameters_stay_equal,
              .proof = "replicas.stay_equal"}),
      belief({.number = 20,
              .belief = "ddp.module is just the unwrapped model",
              .condition = "it is read or saved; a training forward goes through the wrapper",
              .text = "Rank r's gradient is r + 1, in two steps.",
              .unmet = "for a training forward",
              .met = "where forwards go through the wrapper",
              .program = trains_the_inner_module,
              .outcome = gradients_agree,
              .proof = "accumulation.bare_passes_are_local"}),
      belief({.number = 25,
              .belief = "The loss goes down, so it works",
              .condition = "the ranks' weights are compared as well: a rank that trains alone "
                           "learns too",
              .text = "Rank r fits w to 0.5 with the sample r + 1, in four steps.",
              .unmet = "where each rank trains alone",
              .met = "with DDP",
              .program = watches_the_loss,
              .outcome = a_falling_loss_is_enough,
              .proof = "replicas.stay_equal"}),
      belief({.number = 27,
              .belief = "The optimizer must be built after wrapping",
              .condition = "parameters are replaced by new tensors after it was built",
              .text = "Two copies of a model take one step each: the optimizer of one was built "
                      "before wrapping, of the other after.",
              .unmet = "where the parameters stay",
              .met = "where they are replaced before wrapping",
              .program = builds_the_optimizer,
              .outcome = order_matters}),
      belief({.number = 28,
              .belief = "Loading a checkpoint on rank 0 before wrapping is enough",
              .condition = "all that was saved are parameters: the state of an optimizer is not "
                           "broadcast",
              .text = "Rank 0 alone continues from a checkpoint, then all wrap and take a step.",
              .unmet = "with momentum",
              .met = "with plain SGD",
              .program = loads_on_rank_zero,
              .outcome = one_load_is_enough,
              .proof = "checkpoint.resume_is_going_on"})};
}

}  // namespace lockstep::demos::beliefs
