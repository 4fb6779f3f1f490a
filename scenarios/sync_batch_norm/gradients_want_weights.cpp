// A SyncBatchNorm under DistributedDataParallel gives one process's gradients if the ranks' losses
// are weighted by the sizes of their batches, and different ones otherwise.
//
// "SyncBatchNorm equals BatchNorm in a single process" is true of forward. For backward it needs
// two conditions. One process averages its loss over all N samples; a rank averages over its own
// n_r, and DDP averages over the W ranks, so a rank must weigh its loss by W n_r / N. And the
// gradient of an input is that of the *sum* of the ranks' losses, which is not divided: W times the
// single process's. Both variants run, in this order: "weighted" and "unweighted", the latter being
// an average of averages, in which a sample of a small batch counts for more.
//
// Why the checks suffice: the reference differentiates the single process's loss over the whole
// batch, in double precision; parts of 6 and 2 make the two averages differ by far more than the
// bounds (the mutant sync_batch_norm_loss_unweighted is such an average). DDP's own average adds
// the roundings of docs/numerics.md. With equal batches the two variants give the same.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"

#include <torch/torch.h>

namespace lockstep::scenarios::sync_batch_norm_gradients_want_weights {
namespace {

using namespace sync_batch_norm;

constexpr const char *kWeighted = "weighted", *kUnweighted = "unweighted";

double batch_size(const Layer& c) {
  int64_t samples = 0;
  for (int rank = 0; rank < c.world.size; ++rank) samples += samples_of(c, rank);
  return static_cast<double>(std::max<int64_t>(samples, 1));
}

// The factor of a rank's average over its own samples.
double weight_of_loss(const Layer& c, int rank, const std::string& phase) {
  if (phase == kUnweighted) return 1;
  return c.world.size * static_cast<double>(samples_of(c, rank)) / batch_size(c);
}

// The gradient of a rank's loss with respect to its outputs; a sample's loss is the sum of its
// outputs times the case's cotangents.
at::Tensor upstream_of(const Layer& c, int step, int rank, const std::string& phase) {
  const auto own = static_cast<double>(std::max<int64_t>(samples_of(c, rank), 1));
  const auto factors = cotangent_of(c, step, rank).to(at::kDouble);
  return (factors * (weight_of_loss(c, rank, phase) / own)).to(dtype_of(c));
}

void program(const Layer& c, RankContext& here) {
  const auto model = lockstep::sync_batch_norm(here, c.norm);
  set_state(*model, c);
  record_kernels(here);
  const auto replica = wrap(here, model, {});
  for (int step = 0; step < c.steps; ++step)
    for (const char* phase : {kWeighted, kUnweighted}) {
      here.enter(step, phase);
      model->zero_grad();
      const auto input = input_of(c, step, here.rank()).detach().requires_grad_();
      const auto output = replica->forward(input);
      const auto loss = (output * upstream_of(c, step, here.rank(), phase)).sum();
      replica->backward(loss);
      here.record(kOutput, output);
      here.record(kInputGradient, gradient_or_nothing(input));
      for (const auto& parameter : model->named_parameters())
        here.record(parameter.key() + " gradient", gradient_or_nothing(parameter.value()));
    }
}

// The gradients of the sum of the ranks' losses; weight's and bias' gradients are each rank's
// share.
reference::Normalised by_ranks(const Layer& c, int step, const std::string& phase,
                               reference::Computing computing) {
  auto parts = parts_of(c, step);
  for (int rank = 0; rank < c.world.size; ++rank)
    parts[static_cast<size_t>(rank)].cotangent =
        upstream_of(c, step, rank, phase).to(at::kDouble).contiguous();
  auto out = reference::normalised(definition_of(c), parts, computing);
  if (out.is_undecided) throw Refused("no reference: rounding decides the standard deviation");
  return out;
}

// The gradients of one process, whose loss is the average over the whole batch.
reference::Normalised by_one(const Layer& c, int step) {
  auto parts = parts_of(c, step);
  std::vector<at::Tensor> inputs, cotangents;
  for (const auto& part : parts) {
    inputs.push_back(part.input);
    cotangents.push_back(part.cotangent / batch_size(c));
  }
  return reference::normalised(definition_of(c), {{at::cat(inputs), at::cat(cotangents)}},
                               precision_bits(c.dtype));
}

// `right`, with the bound for ranks that compute `computed` instead.
reference::Rounded in_place_of(const at::Tensor& right, const reference::Rounded& computed) {
  return {right, computed.error + (right - computed.value).abs()};
}

reference::Rounded averaged(const Layer& c, const std::vector<reference::Rounded>& shares) {
  reference::Arithmetic arithmetic({.precision_bits = precision_bits(c.dtype), .exact = false});
  return arithmetic.average(shares);
}

// The expected values of every rank in one phase. Unlike in `by_one` a rank's grad_output is
// rounded to its dtype, so the effect of this is added to the bound.
Step expected(const Layer& c, int step, const std::string& phase, reference::Computing computing) {
  const auto ranks = by_ranks(c, step, phase, computing);
  const auto weight = averaged(c, ranks.weight_gradients), bias = averaged(c, ranks.bias_gradients);
  Step out;
  const auto one = by_one(c, step);
  const auto whole = one.input_gradients.front().value * c.world.size;
  int64_t first = 0;
  for (size_t rank = 0; rank < ranks.outputs.size(); ++rank) {
    add(out[kOutput], ranks.outputs[rank], dtype_of(c));
    const auto& own = ranks.input_gradients[rank];
    const auto count = own.value.size(0);
    add(out[kInputGradient],
        phase == kWeighted ? in_place_of(whole.narrow(0, first, count), own) : own, dtype_of(c));
    first += count;
  }
  const auto of_all = [&](const reference::Rounded& average,
                          const std::vector<reference::Rounded>& single) {
    return phase == kWeighted ? in_place_of(single.front().value, average) : average;
  };
  add(out[kWeightGradient], of_all(weight, one.weight_gradients), parameter_dtype_of(c));
  add(out[kBiasGradient], of_all(bias, one.bias_gradients), parameter_dtype_of(c));
  return out;
}

Explanations explained(const Layer& c, int step, const std::string& phase, const char* name) {
  const auto other =
      expected(c, step, phase == kWeighted ? kUnweighted : kWeighted, computing_of(c));
  Explanations out{sum_not_average("gradients")};
  if (phase == kWeighted)
    out.push_back(recorded_instead({"average_of_averages",
                                    "what comes of the ranks' own averages, unweighted: batches of "
                                    "unequal size weigh alike"},
                                   other.at(name).values));
  return out;
}

Findings judged(const Layer& c, const History& h, const std::string& rule, const char* phase) {
  Findings out;
  for (int step = 0; step < c.steps; ++step) {
    const auto right = expected(c, step, phase, computing_of(c, h));
    std::vector<Comparison> rows;
    for (const char* name : {kOutput, kInputGradient, kWeightGradient, kBiasGradient})
      rows.push_back(
          {.row = h.row({step, phase}, name),
           .expected = right.at(name).values,
           .bounds = right.at(name).bounds,
           .explanations = [&c, step, phase, name] { return explained(c, step, phase, name); }});
    out += equal(rule, rows);
  }
  return out;
}

Findings weighted_losses_give_one_processs_gradients(const Layer& c, const History& h) {
  return judged(
      c, h,
      "With losses weighted by the sizes of their batches, averages must be one process's "
      "gradients, and an input's gradient the world size times it",
      kWeighted);
}

Findings unweighted_losses_give_an_average_of_averages(const Layer& c, const History& h) {
  return judged(c, h,
                "With losses that are not weighted, gradients must be those of the sum of the "
                "ranks' own averages, and averages of the ranks' shares",
                kUnweighted);
}

std::vector<Layer> every_small_one() {
  std::vector<Layer> all;
  for (const int world : {1, 2, 3, 5})
    for (const auto& samples : std::vector<std::vector<int>>{{}, {6, 2}, {0, 4}})
      for (const auto dtype : {Dtype::float32, Dtype::float64})
        if (world > 1 || samples.empty() || samples.front() > 0)
          all.push_back({.world = {.size = world},
                         .steps = 2,
                         .norm = {.channels = 2},
                         .spatial = {2},
                         .samples = samples,
                         .dtype = dtype,
                         .values = Values::real,
                         .seed = 15});
  return all;
}

std::string why_nothing_is_averaged(const Layer& c) {
  return c.norm.affine ? why_no_variance(c) : "without weight and bias there is nothing to average";
}

rc::Gen<Layer> layers() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  using Sizes = std::vector<int>;
  return gen::build<Layer>(
      set(&Layer::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Layer::norm,
          gen::build<NormOptions>(set(&NormOptions::channels, inRange<int64_t>(1, 5)),
                                  set(&NormOptions::eps_log2, inRange<int64_t>(-10, 2)))),
      set(&Layer::spatial, rc::gen::elementOf(std::vector<Sizes>{{2}, {3}, {2, 2}})),
      set(&Layer::samples, gen::lists(2, inRange(1, 7))),
      set(&Layer::dtype, element(Dtype::float32, Dtype::float64)),
      set(&Layer::values, element(Values::exact, Values::real)),
      set(&Layer::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace

Scenario gradients_want_weights() {
  return scenario<Layer>({
      .name = "sync_batch_norm.gradients_want_weights",
      .claim = "SyncBatchNorm's averaged gradients are one process's only if ranks weigh their "
               "losses by W n_r / N.",
      .in_full =
          "Under DistributedDataParallel SyncBatchNorm's averaged gradients are one process's "
          "if each rank weighs its loss by W n_r / N, and only then; an input's gradient is "
          "that of the sum of the ranks' losses, W times one process's.",
      .exactness = "within rounding",
      .source = "docs/semantics.md 3; docs/numerics.md, The weight of an uneven batch",
      .not_covered = "layers before and after the normalisation",
      .usual_mistake = "averaging each rank's loss over its own samples where batches differ in "
                       "size.",
      .tags = {"sync_batch_norm", "gradients"},
      .must_catch = {"sync_batch_norm_loss_unweighted", "sync_batch_norm_affine_gradients_summed",
                     "sync_batch_norm_backward_local"},
      .draws = 40,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = layers(),
      .precondition = why_nothing_is_averaged,
      .program = program,
      .checks = {weighted_losses_give_one_processs_gradients,
                 unweighted_losses_give_an_average_of_averages},
      .labels = labels_of_batches(0.3, 0.4),
      .unused = {"upstream", "frozen", "half_parameters", "threads"},
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm_gradients_want_weights
