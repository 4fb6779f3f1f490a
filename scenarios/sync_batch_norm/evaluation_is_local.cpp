// In evaluation a SyncBatchNorm communicates nothing: one rank may evaluate while its peers do not.
//
// After some steps of training one rank is set to evaluation and forwards a batch of its own, and
// no other rank calls forward. Then all ranks are in evaluation and forward the same batch, and
// then all train again, as if there had been no evaluation. A layer that synchronised in evaluation
// would wait for peers that never come, or leave unmatched collectives: the record of collectives
// must be empty at both moments. Without running statistics evaluation normalises by the rank's own
// batch, and still sends nothing.
//
// Why the checks suffice: the expected output is the definition with the running statistics that
// the rank recorded just before, so errors of training neither hide nor count here, and the bound
// is that of a few operations. Normalised by the batch's own statistics, outputs would differ by as
// much as the running ones lag behind, which start from other numbers than the batches'.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/rank/tensors.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/network.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"

#include <torch/torch.h>

namespace lockstep::scenarios::sync_batch_norm_evaluation_is_local {
namespace {

using namespace sync_batch_norm;

constexpr const char *kTrained = "trained", *kOne = "one evaluates", *kAll = "all evaluate",
                     *kAgain = "training again", *kRefused = "an input that does not fit",
                     *kSentence = "sentence";

int evaluator(const Layer& c) {
  return static_cast<int>(c.seed % static_cast<uint64_t>(c.world.size));
}

void train(const Layer& c, Model& model, int step, int rank) {
  auto input = input_of(c, step, rank).detach();
  input.requires_grad_();
  model.forward(input).backward(cotangent_of(c, step, rank));
}

void program(const Layer& c, RankContext& here) {
  const auto model = lockstep::sync_batch_norm(here, c.norm);
  set_state(*model, c);
  for (int step = 0; step < c.steps; ++step) train(c, *model, step, here.rank());
  here.enter(c.steps, kTrained);
  record_buffers(here, *model);

  here.enter(c.steps, kOne);
  const bool evaluates = here.rank() == evaluator(c);
  if (evaluates) model->eval();
  const auto own = input_of(c, c.steps, here.rank());
  here.record(kOutput, evaluates ? model->forward(own) : own.narrow(0, 0, 0));
  record_buffers(here, *model);

  here.enter(c.steps, kAll);
  model->eval();
  here.record(kOutput, model->forward(input_of(c, c.steps, 0)));
  record_buffers(here, *model);

  here.enter(c.steps, kRefused);
  record_sentence(here, kSentence, error_of([&] {
                    if (evaluates) model->forward(torch::ones({2, c.norm.channels + 1}));
                  }));

  here.enter(c.steps, kAgain);
  model->train();
  here.record(kOutput, model->forward(own));
}

Findings evaluation_communicates_nothing(const Layer& c, const History& h) {
  for (const char* phase : {kOne, kAll, kRefused})
    for (int rank = 0; rank < h.size(); ++rank) {
      const auto issued = h.collectives(rank, {c.steps, phase});
      if (issued.empty()) continue;
      return {{"Evaluation must communicate nothing", "collective_in_evaluation",
               "step " + std::to_string(c.steps) + ", " + phase,
               "rank " + std::to_string(rank) + " issued a collective, " + issued.front().op +
                   ", in evaluation"}};
    }
  return {};
}

// No peer compares an input in evaluation, so the rank that has it receives the error alone.
Findings an_input_that_does_not_fit_is_refused(const Layer& c, const History& h) {
  const auto row = h.row({c.steps, kRefused}, kSentence);
  const auto sentence = sentence_in(row, evaluator(c));
  const auto right = "the input of SyncBatchNorm has shape [2, " +
                     std::to_string(c.norm.channels + 1) + "], expected [samples, " +
                     std::to_string(c.norm.channels) + ", ...]";
  if (is_in_our_words(row) ? sentence == right : !sentence.empty()) return {};
  return {{"An input of other channels must be refused",
           "names_another_difference",
           {row.at, row.name},
           "rank " + std::to_string(evaluator(c)) + " received '" + sentence + "', expected '" +
               right + "'"}};
}

at::Tensor doubles(const TensorValue& value) {
  return torch::tensor(as_doubles(value), at::kDouble).reshape(value.shape);
}

// The output of a batch that is normalised by its own statistics.
reference::Rounded by_its_own(const Layer& c, const at::Tensor& input) {
  const auto batch = reference::normalised(definition_of(c), {{input, at::zeros_like(input)}},
                                           precision_bits(c.dtype));
  if (batch.is_undecided) throw Refused("no reference: rounding decides the standard deviation");
  return batch.outputs.front();
}

// The expected output of rank `rank` for the batch of rank `batch_of`.
reference::Rounded right(const Layer& c, const History& h, int rank, int batch_of) {
  const auto input = input_of(c, c.steps, batch_of).to(at::kDouble).contiguous();
  if (!c.norm.track_running_stats) return by_its_own(c, input);
  const auto held = [&](const char* name) {
    return doubles(h.row({c.steps, kTrained}, name).by_rank[static_cast<size_t>(rank)]);
  };
  return reference::evaluated(definition_of(c), input, held(kRunningMean), held(kRunningVar),
                              precision_bits(c.dtype));
}

Explanation normalised_by_the_batch(const Layer& c, const std::vector<at::Tensor>& inputs) {
  std::vector<TensorValue> by_rank;
  for (const auto& input : inputs)
    by_rank.push_back(recorded(
        input.numel() == 0 ? input : by_its_own(c, input.to(at::kDouble)).value, dtype_of(c)));
  return recorded_instead(
      {"local_statistics", "the statistics of the batch, where the running ones belong"}, by_rank);
}

Findings outputs_are_by_running_statistics(const Layer& c, const History& h) {
  ByRank one, all;
  std::vector<at::Tensor> one_input, all_inputs;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto own = input_of(c, c.steps, rank);
    const bool evaluates = rank == evaluator(c);
    one_input.push_back(evaluates ? own : own.narrow(0, 0, 0));
    all_inputs.push_back(input_of(c, c.steps, 0));
    add(one,
        evaluates ? right(c, h, rank, rank) : reference::given(one_input.back().to(at::kDouble)),
        dtype_of(c));
    add(all, right(c, h, rank, 0), dtype_of(c));
  }
  const auto judged = [&](const char* phase, const ByRank& expected,
                          const std::vector<at::Tensor>& inputs) {
    return equal(
        "Evaluation must normalise by the rank's own running statistics, or without any "
        "by its own batch",
        {{.row = h.row({c.steps, phase}, kOutput),
          .expected = expected.values,
          .bounds = expected.bounds,
          .explanations = [&c, inputs] {
            return Explanations{normalised_by_the_batch(c, inputs)};
          }}});
  };
  auto out = judged(kOne, one, one_input);
  out += judged(kAll, all, all_inputs);
  out += alike("In evaluation every rank must make the same bits of the same batch",
               {h.row({c.steps, kAll}, kOutput)});
  return out;
}

Findings evaluation_leaves_no_trace(const Layer& c, const History& h) {
  Findings out;
  for (const char* phase : {kOne, kAll}) {
    std::vector<Comparison> rows;
    if (c.norm.track_running_stats)
      for (const char* name : {kRunningMean, kRunningVar, kBatches})
        rows.push_back({.row = h.row({c.steps, phase}, name),
                        .expected = h.row({c.steps, kTrained}, name).by_rank});
    out += equal("Evaluation must change no running statistics", rows);
  }
  auto longer = c;
  longer.steps = c.steps + 1;
  const auto again = expected_steps(longer).back().at(kOutput);
  out += equal("Training after evaluation must go on with the statistics of the whole batch",
               {{.row = h.row({c.steps, kAgain}, kOutput),
                 .expected = again.values,
                 .bounds = again.bounds}});
  return out;
}

std::vector<Layer> every_small_one() {
  std::vector<Layer> all;
  for (const int world : {1, 2, 3})
    for (const bool tracked : {true, false})
      for (const auto dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16})
        for (const uint64_t seed : {3u, 4u})
          all.push_back({.world = {.size = world},
                         .steps = 2,
                         .norm = {.channels = 3, .track_running_stats = tracked},
                         .spatial = {2},
                         .samples = {6, 2},
                         .dtype = dtype,
                         .values = Values::real,
                         .seed = seed});
  // No tensor wider than the batch, in which a subject might keep its average and deviation.
  for (const auto dtype : {Dtype::float16, Dtype::bfloat16})
    for (const uint64_t seed : {3u, 4u, 5u, 6u})
      all.push_back({.world = {.size = 2},
                     .norm = {.channels = 3, .affine = false, .track_running_stats = false},
                     .spatial = {3, 3},
                     .average_log2 = 3,
                     .samples = {6, 2},
                     .dtype = dtype,
                     .values = Values::real,
                     .seed = seed});
  return all;
}

std::string why_too_few_values(const Layer& c) {
  return values_per_channel(c) < 2 * c.world.size
             ? "evaluation without running statistics needs two values a channel"
             : "";
}

rc::Gen<Layer> layers() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  using Sizes = std::vector<int>;
  return gen::build<Layer>(
      set(&Layer::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Layer::steps, inRange(1, 4)),
      set(&Layer::norm, gen::build<NormOptions>(
                            set(&NormOptions::channels, inRange<int64_t>(1, 5)),
                            set(&NormOptions::eps_log2, inRange<int64_t>(-10, 2)),
                            set(&NormOptions::affine), set(&NormOptions::track_running_stats))),
      set(&Layer::spatial, rc::gen::elementOf(std::vector<Sizes>{{}, {3}, {2, 2}})),
      set(&Layer::samples, gen::lists(3, inRange(2, 7))),
      set(&Layer::dtype, element(Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16)),
      set(&Layer::values, element(Values::exact, Values::real)),
      set(&Layer::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace

Scenario evaluation_is_local() {
  return scenario<Layer>({
      .name = "sync_batch_norm.evaluation_is_local",
      .claim =
          "In evaluation SyncBatchNorm communicates nothing, so that one rank may evaluate alone.",
      .in_full = "In evaluation SyncBatchNorm communicates nothing, normalises by the rank's own "
                 "running statistics, or by its own batch if it keeps none, and changes none: one "
                 "rank may evaluate alone.",
      .exactness = "within rounding",
      .source = "torch.nn.SyncBatchNorm: need_sync only in training; docs/semantics.md 3",
      .not_covered = "a rank in evaluation while its peers train (docs/semantics.md 3)",
      .usual_mistake = "synchronising in evaluation as well: validation on rank 0 alone hangs.",
      .tags = {"sync_batch_norm"},
      .must_catch = {"evaluation_takes_any_input", "sync_batch_norm_synchronises_in_evaluation",
                     "sync_batch_norm_evaluates_by_the_batch"},
      .draws = 40,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = layers(),
      .precondition = why_too_few_values,
      .program = program,
      .checks = {evaluation_communicates_nothing, outputs_are_by_running_statistics,
                 evaluation_leaves_no_trace, an_input_that_does_not_fit_is_refused},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Layer>},
                 {"no running statistics", 0.05,
                  [](const Layer& c) { return !c.norm.track_running_stats; }}},
      .unused = {"upstream", "frozen", "half_parameters", "threads"},
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm_evaluation_is_local
