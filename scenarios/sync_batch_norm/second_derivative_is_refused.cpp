// SyncBatchNorm has no second derivative: a backward with create_graph is refused on every rank,
// with one sentence and before anything is sent, and adds to no gradient.
//
// Its backward would have to be differentiable over all ranks, collectives included. One that
// returned gradients without a graph would be silently wrong: what differentiates them later would
// take them for constants.
//
// Why the checks suffice: the ranks record the sentence and what gradients hold after it, and then
// train on: running statistics have moved in the forward whose backward was refused, and the next
// steps must be those of one process that did the same.
#include "harness/base/values.h"
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/rank/tensors.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"

#include <torch/torch.h>

namespace lockstep::scenarios::sync_batch_norm_second_derivative_is_refused {
namespace {

using namespace sync_batch_norm;

constexpr const char* kRows[] = {kOutput,      kInputGradient, kWeightGradient, kBiasGradient,
                                 kRunningMean, kRunningVar,    kBatches};

void record(const Layer& c, RankContext& here, const Model& model, const at::Tensor& input,
            const at::Tensor& output) {
  here.record(kOutput, output);
  here.record(kInputGradient, gradient_or_nothing(input));
  for (const auto& parameter : model.named_parameters())
    here.record(parameter.key() + " gradient", gradient_or_nothing(parameter.value()));
  if (c.norm.track_running_stats)
    for (const auto& buffer : model.named_buffers()) here.record(buffer.key(), *buffer);
}

// The first step's backward is to be refused.
void program(const Layer& c, RankContext& here) {
  const auto model = lockstep::sync_batch_norm(here, c.norm);
  set_state(*model, c);
  record_kernels(here);
  for (int step = 0; step < c.steps; ++step) {
    model->zero_grad();
    here.enter(step, "after step");
    const auto input = input_of(c, step, here.rank()).detach().requires_grad_();
    const auto output = model->forward(input);
    std::string sentence;
    try {
      output.backward(cotangent_of(c, step, here.rank()), /*retain_graph=*/std::nullopt,
                      /*create_graph=*/step == 0);
    } catch (const std::exception& error) {
      if (step > 0) throw;
      sentence = error.what();
    }
    record(c, here, *model, input, output);
    here.record("sentence", std::vector<int64_t>(sentence.begin(), sentence.end()));
  }
}

Findings the_first_backward_is_refused(const Layer& c, const History& h) {
  const auto row = h.row({0, "after step"}, "sentence");
  auto out = all_received_one_sentence(row);
  for (int rank = 0; rank < c.world.size; ++rank)
    if (row.by_rank[static_cast<size_t>(rank)].shape == std::vector<int64_t>{0})
      out += Findings{{"A backward with create_graph must be refused", "second_derivative_taken",
                       "rank " + std::to_string(rank) + " received no error"}};
  return out;
}

// The gradient that this backward would have left.
ByRank nothing_for(const ByRank& right) {
  ByRank out;
  for (auto value : right.values) {
    out.values.push_back(value_of(torch::empty(
        {0}, torch::TensorOptions(scalar_type(value_of_word<Dtype>(value.dtype).value())))));
    out.bounds.push_back(value_of(torch::zeros({0}, at::kDouble)));
  }
  return out;
}

Findings training_goes_on(const Layer& c, const History& h) {
  auto steps = expected_steps(c, computing_of(c, h));
  for (const char* name : {kInputGradient, kWeightGradient, kBiasGradient})
    if (const auto row = steps.front().find(name); row != steps.front().end())
      row->second = nothing_for(row->second);
  std::vector<Comparison> rows;
  for (int s = 0; s < c.steps; ++s)
    for (const char* name : kRows)
      if (const auto& right = steps[static_cast<size_t>(s)]; right.contains(name))
        rows.push_back({.row = h.row({s, "after step"}, name),
                        .expected = right.at(name).values,
                        .bounds = right.at(name).bounds});
  return equal(
      "The backward that is refused must add to no gradient, and the steps after it must be those "
      "of one process",
      rows);
}

rc::Gen<Layer> layers() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  const auto any = gen::build<Layer>(
      set(&Layer::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Layer::steps, inRange(1, 4)),
      set(&Layer::norm, gen::build<NormOptions>(set(&NormOptions::channels, inRange<int64_t>(1, 5)),
                                                set(&NormOptions::affine),
                                                set(&NormOptions::track_running_stats))),
      set(&Layer::spatial, rc::gen::elementOf(std::vector<std::vector<int>>{{}, {3}, {2, 2}})),
      set(&Layer::samples, gen::lists(3, inRange(0, 5))),
      set(&Layer::dtype, element(Dtype::float32, Dtype::float64, Dtype::float16)),
      set(&Layer::values, element(Values::exact, Values::real)),
      set(&Layer::seed, inRange<uint64_t>(0, 1 << 20)));
  return gen::map(any, [](Layer c) {
    if (values_per_channel(c) == 1) c.samples = {};
    return c;
  });
}

}  // namespace

Scenario second_derivative_is_refused() {
  return scenario<Layer>({
      .name = "sync_batch_norm.second_derivative_is_refused",
      .claim = "A backward with create_graph through SyncBatchNorm is refused on every rank with "
               "one sentence.",
      .in_full = "A backward with create_graph through SyncBatchNorm is refused on every rank with "
                 "one sentence, adds to no gradient, and the ranks train on.",
      .exactness = "within rounding",
      .source = "docs/semantics.md 3; torch.nn.SyncBatchNorm offers none",
      .not_covered = "ranks of which only some differentiate twice",
      .usual_mistake = "a gradient penalty on a network with SyncBatchNorm, whose second "
                       "derivatives take the statistics for constants.",
      .tags = {"sync_batch_norm"},
      .must_catch = {"sync_batch_norm_second_derivative_taken"},
      .draws = 30,
      .start = {.world = {.size = 2}, .steps = 2},
      .cases = layers(),
      .precondition = why_no_variance,
      .program = program,
      .checks = {the_first_backward_is_refused, training_goes_on},
      .labels = {{"three ranks and more", 0.15, has_three_ranks<Layer>},
                 {"a step after it", 0.2, [](const Layer& c) { return c.steps > 1; }}},
      .unused = {"upstream", "frozen", "half_parameters", "threads"},
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm_second_derivative_is_refused
