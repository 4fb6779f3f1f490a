// SyncBatchNorm on W ranks is BatchNorm in one process on the concatenated batch.
//
// Every rank has a batch of a different size and average, and a different non-constant grad_output:
// with equal sizes an unweighted average would be right, with equal averages the average of the
// variances would be, and under a constant grad_output the input's gradient is zero whatever is
// wrong. Variances are about 4 or 4/3 and eps is no small part of them, so that its place shows;
// counts are small, so that n and n - 1 differ. Averages far from zero show a variance computed as
// the difference of two large numbers; deviations around eps' root and below show a missing or
// misplaced eps.
//
// Which gradient: every rank's outputs depend on every rank's input through the statistics. The
// backward of a rank begins at its own loss; an input's gradient is that of the *sum* of the ranks'
// losses, which the reference differentiates. Weight and bias act on the rank's own samples only:
// their gradients are local, and averaging them is DDP's task.
//
// Why the checks suffice: the reference evaluates the definition in double precision on the whole
// batch and bounds, element by element, the rounding error of a format for every order in which
// ranks and samples may be summed (docs/numerics.md). The bounds are some thousand times smaller
// than the effect of each mistake listed in mistakes.cpp on these values. Within the bounds ranks
// could still drift apart, so running statistics are also compared between ranks, bit for bit.
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/sync_batch_norm/draw.h"
#include "scenarios/sync_batch_norm/expected.h"
#include "scenarios/sync_batch_norm/output_layout.h"

#include <torch/torch.h>

namespace lockstep::scenarios::sync_batch_norm_matches_single_process {
namespace {

using namespace sync_batch_norm;

void program(const Layer& c, RankContext& here) {
  const auto model = lockstep::sync_batch_norm(here, c.norm);
  set_state(*model, c);
  record_kernels(here);
  const IntraOpThreads threads(c.threads);
  for (int step = 0; step < c.steps; ++step) {
    model->zero_grad();
    here.enter(step, "forward");
    auto input = input_of(c, step, here.rank()).detach();
    input.requires_grad_(needs_gradient(c, here.rank()));
    const auto output = model->forward(input);
    here.record(kOutput, output);
    here.record(kOutputLayout, layout_of(output));
    here.enter(step, "backward");
    if (output.requires_grad()) output.backward(cotangent_of(c, step, here.rank()));
    here.record(kInputGradient, gradient_or_nothing(input));
    for (const auto& parameter : model->named_parameters())
      here.record(parameter.key() + " gradient", gradient_or_nothing(parameter.value()));
    here.enter(step, "after step");
    for (const auto& buffer : model->named_buffers()) here.record(buffer.key(), *buffer);
  }
}

Explanations explained(const Layer& c, int step, const std::string& name) {
  Explanations out;
  for (const auto& mistake : mistakes(c)) {
    const auto& shown = mistake.steps[static_cast<size_t>(step)];
    if (const auto row = shown.find(name); row != shown.end())
      out.push_back(recorded_instead(mistake.diagnosis, row->second.values));
  }
  return out;
}

// The rows of one phase that the case has, over all steps.
Findings compared(const Layer& c, const History& h, const std::vector<Step>& steps,
                  const std::string& rule, const char* phase,
                  const std::vector<std::string>& names) {
  std::vector<Comparison> rows;
  for (int s = 0; s < c.steps; ++s)
    for (const auto& name : names) {
      const auto& step = steps[static_cast<size_t>(s)];
      const auto right = step.find(name);
      if (right == step.end()) continue;
      rows.push_back({.row = h.row({s, phase}, name),
                      .expected = right->second.values,
                      .bounds = right->second.bounds,
                      .explanations = [&c, s, name] { return explained(c, s, name); }});
    }
  return equal(rule, rows);
}

Findings parameters_have_gradients(const Layer& c, const History& h) {
  std::vector<Row> rows;
  for (int s = 0; s < c.steps; ++s) {
    if (learns(c, "weight")) rows.push_back(h.row({s, "backward"}, kWeightGradient));
    if (learns(c, "bias")) rows.push_back(h.row({s, "backward"}, kBiasGradient));
  }
  return gradients_are_defined(rows);
}

Findings everything_is_as_in_one_process(const Layer& c, const History& h) {
  const auto steps = expected_steps(c, computing_of(c, h));
  auto out =
      compared(c, h, steps, "Every rank must normalise with the statistics of the whole batch",
               "forward", {kOutput});
  out += parameters_have_gradients(c, h);
  out += compared(c, h, steps,
                  "An input's gradient must be that of the sum of all ranks' losses, weight's and "
                  "bias' that of the rank's own",
                  "backward", {kInputGradient, kWeightGradient, kBiasGradient});
  out += compared(c, h, steps, "Running statistics must move towards the whole batch's",
                  "after step", {kRunningMean, kRunningVar, kBatches});
  return out;
}

Findings ranks_hold_the_same_running_statistics(const Layer& c, const History& h) {
  std::vector<Row> rows;
  if (c.norm.track_running_stats)
    for (int s = 0; s < c.steps; ++s)
      for (const char* name : {kRunningMean, kRunningVar, kBatches})
        rows.push_back(h.row({s, "after step"}, name));
  return alike("Every rank must hold the same bits of running statistics as the others", rows);
}

}  // namespace

Scenario matches_single_process() {
  return scenario<Layer>({
      .name = "sync_batch_norm.matches_single_process",
      .claim = "SyncBatchNorm on any number of ranks is BatchNorm in one process on the "
               "concatenated batch.",
      .in_full = "SyncBatchNorm on any number of ranks, with batches of any size, is BatchNorm in "
                 "one process on the concatenated batch: output, gradients and running statistics.",
      .exactness = "within rounding",
      .source = "torch.nn.SyncBatchNorm; Ioffe and Szegedy 2015; docs/semantics.md 3",
      .not_covered = "evaluation mode, ranks that disagree, groups of some ranks",
      .usual_mistake = "batches of unequal size that weigh alike, or a backward that forgets that "
                       "every input moves the statistics of all ranks.",
      .tags = {"core", "sync_batch_norm"},
      .must_catch = {"sync_batch_norm_averages_unweighted",
                     "sync_batch_norm_variance_between_ranks_left_out",
                     "sync_batch_norm_count_taken_from_own",
                     "sync_batch_norm_running_count_taken_from_own",
                     "sync_batch_norm_running_variance_biased",
                     "sync_batch_norm_backward_local",
                     "sync_batch_norm_backward_count_taken_from_own",
                     "sync_batch_norm_statistics_constant_in_backward",
                     "sync_batch_norm_momentum_cumulative",
                     "sync_batch_norm_momentum_one_batch_behind",
                     "sync_batch_norm_momentum_reversed",
                     "sync_batch_norm_variance_by_difference",
                     "sync_batch_norm_variance_unbiased",
                     "sync_batch_norm_empty_rank_is_alone",
                     "sync_batch_norm_eps_left_out",
                     "sync_batch_norm_running_statistics_local",
                     "sync_batch_norm_affine_gradients_summed",
                     "sync_batch_norm_weight_left_behind",
                     "sync_batch_norm_zero_momentum_unset",
                     "sync_batch_norm_bias_needs_weight",
                     "sync_batch_norm_bias_alone_has_no_backward",
                     "sync_batch_norm_running_statistics_in_their_dtype",
                     "sync_batch_norm_tail_of_a_row_left_out",
                     "sync_batch_norm_volumes_are_laid_out_anew",
                     "sync_batch_norm_other_statistics_in_float32"},
      .draws = 120,
      .start = {.world = {.size = 2}},
      .every = every_layer,
      .cases = drawn_layers(),
      .precondition = why_no_variance,
      .program = program,
      .checks = {everything_is_as_in_one_process, outputs_are_laid_out_like_inputs,
                 ranks_hold_the_same_running_statistics},
      .labels = labels_of_layers(),
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm_matches_single_process
