// Beliefs of what a data-parallel step computes beside one process: 5, 6, 7 and 26.
#include "demos/beliefs/belief.h"
#include "demos/beliefs/beliefs.h"
#include "demos/beliefs/models.h"

namespace lockstep::demos::beliefs {

namespace {

using reports::number_text;

constexpr double kSgdRate = 0.01;

// The average of (w x)^2, whose gradient at w = 1 is the average of 2 x^2.
at::Tensor squared(const at::Tensor& outputs) {
  return outputs.square().mean();
}

double gradient_alone(const at::Tensor& inputs) {
  return inputs.square().mean().item<double>() * 2;
}

int64_t uneven_count(int rank) {
  return rank % 2 == 0 ? 3 : 1;
}

// Rank 0 has the samples 1, 2, 3, rank 1 has 4, and so on.
void averages_gradients(const Run& run) {
  int64_t first = 0, all = 0;
  for (int rank = 0; rank < run.world(); ++rank) {
    if (rank < run.rank()) first += uneven_count(rank);
    all += uneven_count(rank);
  }
  const auto own = samples(first, uneven_count(run.rank()));
  const double weight = run.is_met()
                            ? static_cast<double>(run.world()) * static_cast<double>(own.numel()) /
                                  static_cast<double>(all)
                            : 1.0;
  const auto model = std::make_shared<OneWeight>();
  const auto replica = wrap(run.here(), model, {});
  replica->backward(squared(replica->forward(own)) * weight);
  run.record("samples", own);
  run.record("gradient", model->weight.grad());
  run.record("one process", gradient_alone(samples(0, all)));
}

Outcome gradients_are_of_the_whole_batch(const Records& records) {
  const double whole = records.by_rank("one process").front();
  return beside_one_process(
      "the ranks' gradient is ", records.by_rank("gradient"), whole,
      {column("samples", records, "samples"), column("gradient", records, "gradient", 0, whole)});
}

// A step of SGD without DDP, on these samples.
double stepped_alone(const at::Tensor& inputs, double weight, double rate) {
  return weight - rate * gradient_alone(inputs) * weight;
}

double stepped(const Run& run, const at::Tensor& own, double rate, bool is_linear) {
  const auto model = std::make_shared<OneWeight>();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(rate));
  const auto replica = wrap(run.here(), model, {});
  const auto outputs = replica->forward(own);
  replica->backward(is_linear ? outputs.mean() : squared(outputs));
  optimizer.step();
  return model->weight.item<double>();
}

constexpr int64_t kBatch = 4;

void has_the_same_settings(const Run& run) {
  const auto own = samples(run.rank() * kBatch, kBatch);
  run.record("weight", stepped(run, own, kSgdRate, /*is_linear=*/false));
  const auto beside = samples(0, run.is_met() ? kBatch * run.world() : kBatch);
  run.record("one process", stepped_alone(beside, 1, kSgdRate));
}

Outcome weights_are_those_of_one_process(const Records& records) {
  const double alone = records.by_rank("one process").front();
  return beside_one_process("a rank's weight is ", records.by_rank("weight"), alone,
                            {column("weight after the step", records, "weight", 0, alone)});
}

// With the loss w x, whose gradient does not depend on w, one step with the rate times W is the sum
// of W steps of one process, one on each rank's batch.
void multiplies_the_rate(const Run& run) {
  const auto own = samples(run.rank() * kBatch, kBatch);
  run.record("weight", stepped(run, own, kSgdRate * run.world(), run.is_met()));
  double alone = 1;
  if (run.is_met())
    for (int step = 0; step < run.world(); ++step)
      alone -= kSgdRate * samples(step * kBatch, kBatch).mean().item<double>();
  else
    alone = stepped_alone(samples(0, kBatch * run.world()), 1, kSgdRate);
  run.record("one process", alone);
}

// Averages by hand, and divides or does not.
void agrees(const Run& run) {
  const OneWeight model;
  const auto input = samples(run.rank(), 1);
  model.weight.mutable_grad() = summed(run.here(), input);
  if (run.is_met()) model.weight.mutable_grad().div_(run.world());
  run.record("gradient", model.weight.grad());
  run.record("one process", samples(0, run.world()).mean().item<double>());
}

Outcome agreement_is_enough(const Records& records) {
  const auto held = records.by_rank("gradient");
  const double whole = records.by_rank("one process").front();
  return {all_same(held) && all_close(held, whole),
          std::string("the ranks ") + (all_same(held) ? "agree on " : "do not agree: ") +
              number_text(held.front()) + ", one process has " + number_text(whole),
          {column("gradient", records, "gradient", 0, whole)}};
}

}  // namespace

std::vector<Demo> of_results() {
  return {
      belief({.number = 5,
              .belief = "Averaged gradients equal the gradient of the full batch",
              .condition = "every rank has as many samples, or weights its loss by W n / N; and "
                           "the loss is an average over samples that do not depend on each other",
              .text = "The loss is the average of (w x)^2 with w = 1; ranks have 3 samples and 1 "
                      "by turns.",
              .unmet = "with losses as they are",
              .met = "with losses weighted by W n / N",
              .program = averages_gradients,
              .outcome = gradients_are_of_the_whole_batch,
              .proof = "gradients.match_single_process"}),
      belief({.number = 6,
              .belief = "DDP gives the result of one device with the same settings",
              .condition = "one device has the same global batch, W times a rank's",
              .text = "A rank's batch has 4 samples. All take one step of SGD.",
              .unmet = "beside one process with a batch of 4",
              .met = "beside one process with a batch of 4 W",
              .program = has_the_same_settings,
              .outcome = weights_are_those_of_one_process,
              .proof = "training.is_one_process"}),
      belief({.number = 7,
              .belief = "Multiply the learning rate by the number of ranks",
              .condition = "a step replaces W steps of one process, whose gradient hardly changes "
                           "meanwhile; for the same global batch the rate stays",
              .text = "The ranks take one step of SGD with the rate times W, on batches of 4. In "
                      "the second run the loss is w x, so that its gradient does not change.",
              .unmet = "beside one step on the same global batch",
              .met = "beside W steps on a batch each",
              .program = multiplies_the_rate,
              .outcome = weights_are_those_of_one_process,
              .proof = "training.is_one_process"}),
      belief({.number = 26,
              .belief = "The ranks agree with each other, so the gradient is right",
              .condition = "one process agrees too: every mistake that all ranks make alike keeps "
                           "them equal",
              .text = "The program all-reduces the gradients itself; rank r's is r + 1.",
              .unmet = "where the sum is not divided",
              .met = "where it is divided by W",
              .program = agrees,
              .outcome = agreement_is_enough,
              .proof = "gradients.match_single_process"})};
}

}  // namespace lockstep::demos::beliefs
