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
#include "harness/core/compare.h"
#include "harness/recorder/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"

#include <torch/torch.h>

namespace lockstep::scenarios::sync_batch_norm_matches_single_process {
namespace {

using namespace sync_batch_norm;

void program(const Layer& c, RankContext& here) {
  if (values_per_channel(c) == 1) throw Unsupported("one value a channel has no variance");
  const auto model = lockstep::sync_batch_norm(here, c.norm);
  set_state(*model, c);
  const IntraOpThreads threads(c.threads);
  for (int step = 0; step < c.steps; ++step) {
    model->zero_grad();
    here.enter(step, "forward");
    auto input = input_of(c, step, here.rank()).detach();
    input.requires_grad_(needs_gradient(c, here.rank()));
    const auto output = model->forward(input);
    here.record(kOutput, output);
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
  const auto steps = expected_steps(c);
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

// Averages far from zero and from the variance, in every dtype.
std::vector<Layer> every_far_average() {
  std::vector<Layer> all;
  for (const char* dtype : {"float32", "float64", "float16", "bfloat16"})
    for (const int average_log2 : {14, 12, 6})
      for (const char* values : {"exact", "real"})
        all.push_back({.world = {.size = 2},
                       .norm = {.channels = 2},
                       .spatial = {2, 2},
                       .average_log2 = average_log2,
                       .samples = {3, 1},
                       .dtype = dtype,
                       .values = values,
                       .seed = 5});
  return all;
}

// Deviations from eps' root to a hundredth of it, and averages ten thousand times the deviation.
std::vector<Layer> every_small_deviation() {
  std::vector<Layer> all;
  for (const char* dtype : {"float32", "float64", "float16"})
    for (const int spread_log2 : {-4, -8, -12})
      for (const int64_t eps_log2 : {-17, -8})
        all.push_back({.world = {.size = 3},
                       .norm = {.channels = 2, .eps_log2 = eps_log2},
                       .spatial = {3},
                       .spread_log2 = spread_log2,
                       .samples = {2, 1, 3},
                       .dtype = dtype,
                       .values = "real",
                       .seed = 6});
  for (const char* dtype : {"float32", "float64"})
    all.push_back({.world = {.size = 2},
                   .norm = {.channels = 2},
                   .spatial = {2, 2},
                   .average_log2 = 14,
                   .spread_log2 = -1,
                   .samples = {3, 1},
                   .dtype = dtype,
                   .seed = 6});
  return all;
}

// More channels than one message of the subject holds, and 10^5 values per channel.
std::vector<Layer> every_large_one() {
  std::vector<Layer> all;
  for (const int64_t channels : {512, 513, 1100})
    all.push_back({.world = {.size = 2},
                   .norm = {.channels = channels},
                   .samples = {3, 2},
                   .values = "real",
                   .seed = 8});
  for (const int world : {1, 3})
    all.push_back({.world = {.size = world},
                   .norm = {.channels = 2},
                   .spatial = {16, 16},
                   .samples = world == 1 ? std::vector<int>{400} : std::vector<int>{300, 0, 100},
                   .values = "real",
                   .seed = 8});
  return all;
}

// More values per channel than half precision can count, and than one thread takes.
std::vector<Layer> every_one_that_threads_share() {
  std::vector<Layer> all;
  for (const char* dtype : {"float16", "bfloat16", "float32"})
    for (const auto& [spatial, samples] : {std::pair(std::vector{33, 64}, std::vector{1, 4}),
                                           std::pair(std::vector{7}, std::vector{1000, 301})})
      for (const char* layout : {"contiguous", "channels_last"})
        all.push_back({.world = {.size = 2},
                       .norm = {.channels = 17},
                       .spatial = spatial,
                       .samples = samples,
                       .dtype = dtype,
                       .threads = 3,
                       .layout = layout,
                       .values = "real",
                       .seed = 15});
  return all;
}

// The fewest values per channel that have a variance, in several worlds; a world of one.
std::vector<Layer> every_fewest_values() {
  std::vector<Layer> all;
  for (const int world : {1, 2, 5})
    for (const auto& samples : std::vector<std::vector<int>>{{2, 0, 0, 0, 0}, {1, 1, 0, 0, 0}})
      for (const char* values : {"exact", "real"})
        if (world > 1 || samples.front() == 2)
          all.push_back({.world = {.size = world},
                         .steps = 2,
                         .norm = {.channels = 3},
                         .samples = samples,
                         .values = values,
                         .seed = 9});
  return all;
}

// Batches of every kind of size in worlds of two and three, every dtype, every pair of layouts.
std::vector<Layer> every_small_one() {
  auto all = every_far_average();
  for (const auto& more : {every_small_deviation(), every_large_one(),
                           every_one_that_threads_share(), every_fewest_values()})
    all.insert(all.end(), more.begin(), more.end());
  for (const int world : {2, 3})
    for (const auto& samples : std::vector<std::vector<int>>{{}, {1}, {6, 2}, {0, 4}, {0}})
      for (const auto& spatial : std::vector<std::vector<int>>{{}, {2, 2}})
        for (const char* upstream : {"all", "none", "some"})
          all.push_back({.world = {.size = world},
                         .norm = {.channels = 2},
                         .spatial = spatial,
                         .samples = samples,
                         .upstream = upstream,
                         .values = world == 2 ? "exact" : "real",
                         .seed = 3});
  for (const char* dtype : {"float32", "float64", "float16", "bfloat16"})
    for (const char* layout : {"contiguous", "channels_last", "strided"})
      for (const char* gradient_layout : {"contiguous", "channels_last", "strided"})
        all.push_back({.world = {.size = 2},
                       .norm = {.channels = 3},
                       .spatial = {2, 3},
                       .samples = {3, 1},
                       .dtype = dtype,
                       .layout = layout,
                       .gradient_layout = gradient_layout,
                       .values = "real",
                       .seed = 4});
  return all;
}

rc::Gen<NormOptions> norms() {
  using rc::gen::inRange, rc::gen::set;
  // Few, and sometimes one more or less than loops take at once.
  const auto channels = rc::gen::weightedOneOf<int64_t>(
      {{6, inRange<int64_t>(1, 5)},
       {1, rc::gen::element<int64_t>(7, 8, 9, 15, 16, 17, 31, 33, 65)}});
  return rc::gen::build<NormOptions>(
      set(&NormOptions::channels, channels), set(&NormOptions::eps_log2, inRange<int64_t>(-17, 2)),
      set(&NormOptions::momentum_log2, inRange<int64_t>(-4, 1)),
      set(&NormOptions::zero_momentum, rc::gen::weightedElement<bool>({{7, false}, {1, true}})),
      set(&NormOptions::cumulative), set(&NormOptions::affine),
      set(&NormOptions::track_running_stats,
          rc::gen::weightedElement<bool>({{4, true}, {1, false}})));
}

rc::Gen<Layer> layers() {
  using rc::gen::element;
  using rc::gen::inRange;
  using rc::gen::set;
  using Sizes = std::vector<int>;
  const auto samples = rc::gen::mapcat(inRange<size_t>(0, 4), [](size_t count) {
    return rc::gen::container<Sizes>(count, inRange(0, 7));
  });
  const auto layouts = element<std::string>("contiguous", "channels_last", "strided");
  const auto any = rc::gen::build<Layer>(
      set(&Layer::world, rc::gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Layer::steps, inRange(1, 3)), set(&Layer::norm, norms()),
      set(&Layer::spatial, rc::gen::elementOf(std::vector<Sizes>{
                               {}, {1}, {3}, {2, 2}, {3, 1}, {1, 2, 2}, {7}, {3, 3}, {17}})),
      set(&Layer::average_log2, element(0, 0, 4, 8, 12, 14)),
      set(&Layer::spread_log2, element(0, 0, 0, -4, -8, -12)), set(&Layer::samples, samples),
      set(&Layer::upstream, element<std::string>("all", "none", "some")),
      set(&Layer::frozen, element<std::string>("none", "none", "weight", "bias", "both")),
      set(&Layer::half_parameters), set(&Layer::threads, element(1, 1, 2, 3, 4)),
      set(&Layer::dtype, element<std::string>("float32", "float64", "float16", "bfloat16")),
      set(&Layer::layout, layouts), set(&Layer::gradient_layout, layouts),
      set(&Layer::values, element<std::string>("exact", "real")),
      set(&Layer::seed, inRange<uint64_t>(0, 1 << 20)));
  return rc::gen::map(any, [](Layer c) {
    if (values_per_channel(c) == 1) c.samples = {};
    if (c.average_log2 > 0) c.spread_log2 = 0;  // rounding would decide the deviation
    if (c.dtype != "float16" && c.dtype != "bfloat16") c.half_parameters = false;
    if (!c.norm.affine) c.frozen = "none";
    if (c.norm.cumulative) c.norm.zero_momentum = false;
    return c;
  });
}

}  // namespace

Scenario matches_single_process() {
  return scenario<Layer>({
      .name = "sync_batch_norm.matches_single_process",
      .claim = "SyncBatchNorm on any number of ranks, with batches of any size, is BatchNorm in "
               "one process on the concatenated batch: output, gradients and running statistics.",
      .exactness = "within rounding",
      .source = "torch.nn.SyncBatchNorm; Ioffe and Szegedy 2015; docs/semantics.md 3",
      .not_covered = "evaluation mode, ranks that disagree, groups of some ranks",
      .usual_mistake = "batches of unequal size that weigh alike, or a backward that forgets that "
                       "every input moves the statistics of all ranks.",
      .tags = {"core", "sync_batch_norm"},
      .must_catch =
          {"sync_batch_norm_averages_unweighted", "sync_batch_norm_variance_between_ranks_left_out",
           "sync_batch_norm_count_taken_from_own", "sync_batch_norm_running_count_taken_from_own",
           "sync_batch_norm_running_variance_biased", "sync_batch_norm_backward_local",
           "sync_batch_norm_backward_count_taken_from_own",
           "sync_batch_norm_statistics_constant_in_backward", "sync_batch_norm_momentum_reversed",
           "sync_batch_norm_variance_by_difference", "sync_batch_norm_variance_unbiased",
           "sync_batch_norm_eps_left_out", "sync_batch_norm_running_statistics_local",
           "sync_batch_norm_affine_gradients_summed", "sync_batch_norm_weight_left_behind"},
      .draws = 120,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = layers(),
      .program = program,
      .checks = {everything_is_as_in_one_process, ranks_hold_the_same_running_statistics},
      .labels = labels_of_layers(),
  });
}

std::vector<Scenario> all() {
  return {matches_single_process()};
}

}  // namespace lockstep::scenarios::sync_batch_norm_matches_single_process
