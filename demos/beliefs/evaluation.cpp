// Beliefs of numbers that ranks combine: metrics, norms and loss scales: 14, 15, 21 and 22.
#include "demos/beliefs/belief.h"
#include "demos/beliefs/beliefs.h"
#include "demos/beliefs/models.h"

#include <algorithm>
#include <cmath>

namespace lockstep::demos::beliefs {

namespace {

using reports::number_text;

constexpr int64_t kEvaluated = 10;

// A model that is right on samples 0 and 1 alone.
void counts_hits(const Run& run) {
  const auto drawn =
      shard(run.here(), {.length = kEvaluated, .drop_last = false, .pad = !run.is_met()})->draw();
  const auto hits =
      std::count_if(drawn.begin(), drawn.end(), [](int64_t each) { return each < 2; });
  run.record("drawn", drawn);
  run.record("hits", static_cast<double>(hits));
  run.record("accuracy", summed(run.here(), torch::full({1}, hits, at::kDouble)) / kEvaluated);
}

Outcome accuracy_is_that_of_one_process(const Records& records) {
  constexpr double kAlone = 2.0 / kEvaluated;
  return beside_one_process("the ranks report ", records.by_rank("accuracy"), kAlone,
                            {column("evaluates", records, "drawn"), column("hits", records, "hits"),
                             column("accuracy", records, "accuracy", 0, kAlone)});
}

// Rank 0 is right on all of its 4 samples, the others on none of theirs.
void averages_accuracies(const Run& run) {
  const double count = run.is_met() || run.rank() == 0 ? 4 : 1;
  const double hits = run.rank() == 0 ? 4 : 0;
  const auto pooled = summed(run.here(), torch::tensor({hits, count}, at::kDouble));
  run.record("samples", count);
  run.record("own", hits / count);
  run.record("average",
             summed(run.here(), torch::full({1}, hits / count, at::kDouble)) / run.world());
  run.record("one process", pooled[0] / pooled[1]);
}

Outcome the_average_is_that_of_one_process(const Records& records) {
  const auto held = records.by_rank("average");
  const double alone = records.by_rank("one process").front();
  return {all_close(held, alone),
          "the average is " + number_text(held.front()) + ", over all samples it is " +
              number_text(alone),
          {column("samples", records, "samples"), column("accuracy", records, "own"),
           column("average", records, "average", 0, alone)}};
}

// The norm of the gradient of a model of W weights.
constexpr double kGradientNorm = 0.8;

void reduces_the_norm(const Run& run) {
  const auto model = std::make_shared<Weights>(run.world());
  const auto replica = wrap(run.here(), model, {});
  const auto input =
      torch::full({run.world()}, kGradientNorm / std::sqrt(run.world()), at::kDouble);
  replica->backward(replica->forward(input).sum());
  const auto& gradient = model->weights.grad();
  const auto own = run.is_met() ? gradient.slice(0, run.rank(), run.rank() + 1) : gradient;
  run.record("holds", own);
  run.record("norm", own.norm());
  run.record("reduced", summed(run.here(), own.square().sum()).sqrt());
}

Outcome the_reduced_norm_is_right(const Records& records) {
  const auto held = records.by_rank("reduced");
  return {all_close(held, kGradientNorm),
          "all-reduced it is " + number_text(held.front()) + ", the gradient's norm is " +
              number_text(kGradientNorm),
          {column("gradient held", records, "holds"), column("its norm", records, "norm"),
           column("all-reduced", records, "reduced", 0, kGradientNorm)}};
}

constexpr int kScaledSteps = 3;

void scales_losses(const Run& run) {
  constexpr double kRate = 0.125;
  const double scale = run.is_met() ? 2 : run.rank() + 1;
  const auto model = std::make_shared<OneWeight>();
  const auto replica = wrap(run.here(), model, {});
  double alone = 1;
  for (int step = 0; step < kScaledSteps; ++step) {
    run.enter(step);
    model->zero_grad();
    replica->backward(replica->forward(samples(run.rank(), 1)).sum() * scale);
    const torch::NoGradGuard no_grad;
    model->weight.sub_(kRate * model->weight.grad() / scale);
    alone -= kRate * samples(0, run.world()).mean().item<double>();
    run.record("scale", scale);
    run.record("weight", model->weight);
    run.record("one process", alone);
  }
}

Outcome scaled_steps_are_right(const Records& records) {
  const auto held = records.by_rank("weight", kScaledSteps - 1);
  const double alone = records.by_rank("one process", kScaledSteps - 1).front();
  Outcome out{all_close(held, alone),
              "after " + std::to_string(kScaledSteps) + " steps the ranks hold " + spaced(held) +
                  ", one process has " + number_text(alone),
              {column("scale", records, "scale")}};
  for (int step = 0; step < kScaledSteps; ++step)
    out.columns.push_back(column("step " + std::to_string(step), records, "weight", step,
                                 records.by_rank("one process", step).front()));
  return out;
}

}  // namespace

std::vector<Demo> of_evaluation() {
  return {
      belief<4>({.number = 14,
                 .belief = "all_reduce(hits) / samples is the accuracy",
                 .condition = "hits are counts, they are summed, and no sample is padded or "
                              "dropped",
                 .text = "10 samples are evaluated in order; the model is right on samples 0 and 1 "
                         "alone. The columns are what a rank evaluates, its hits, and the sum of "
                         "hits over 10.",
                 .unmet = "where the sampler pads",
                 .met = "where each sample is drawn once",
                 .program = counts_hits,
                 .outcome = accuracy_is_that_of_one_process,
                 .proof = "evaluation.counts_each_sample_once",
                 .is_met_anyway = [](int world) { return kEvaluated % world == 0; }}),
      belief({.number = 15,
              .belief = "Average the ranks' accuracies",
              .condition = "all ranks have as many samples; otherwise sum hits and counts",
              .text = "Rank 0 is right on all of its 4 samples, the others on none of theirs.",
              .unmet = "where the others have 1 sample",
              .met = "where they have 4",
              .program = averages_accuracies,
              .outcome = the_average_is_that_of_one_process,
              .proof = "evaluation.counts_each_sample_once"}),
      belief({.number = 21,
              .belief = "The gradient's norm must be all-reduced before clipping",
              .condition =
                  "each rank holds a part of the gradient; DDP's ranks hold all of it, and "
                  "the sum of equal squares is sqrt(W) too long",
              .text = "The averaged gradient has the norm 0.8. Ranks all-reduce the square of the "
                      "norm of what they hold.",
              .unmet = "with replicated gradients",
              .met = "where a rank holds one element",
              .program = reduces_the_norm,
              .outcome = the_reduced_norm_is_right}),
      belief({.number = 22,
              .belief = "A loss scaler needs no care, since gradients are equal",
              .condition = "the scales are equal on all ranks, in every step",
              .text = "Rank r's gradient is r + 1. Each rank scales its loss, and divides the "
                      "averaged gradient by its own scale; rates are 1/8.",
              .unmet = "with scales 1, 2, ...",
              .met = "with the scale 2 on every rank",
              .program = scales_losses,
              .outcome = scaled_steps_are_right,
              .proof = "programs.match_single_process"})};
}

}  // namespace lockstep::demos::beliefs
