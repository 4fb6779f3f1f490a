// One batch, split over the ranks in several ways, gives the same output, the same gradients and
// the same running statistics.
//
// No reference gives the expected values here: the ranks must hold under every other split what
// they hold, sample by sample, under the split of the case. The batch is rotated by one rank, split
// evenly, given to one rank while the others have none, and given to a separate group of all ranks
// but the first. So nothing may depend on which rank holds a sample, on how many others it holds,
// or on how many ranks there are. A mistake that is the same under every split is not seen here;
// sync_batch_norm.matches_single_process covers it.
//
// Why the checks suffice: a statistic that is local, or weights ranks equally, differs as soon as
// two splits differ in sizes. Sums are rounded in another order under every split, so two splits
// may differ by the sum of their distances from the definition: two of the bounds of
// docs/numerics.md. Weight's and bias' gradients are shares of a rank's own samples, so their sums
// over the ranks are compared, and the bounds are summed.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/rank/tensors.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/sync_batch_norm/expected.h"
#include "scenarios/sync_batch_norm/splits.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

namespace lockstep::scenarios::sync_batch_norm_split_does_not_matter {
namespace {

using namespace sync_batch_norm;

void take_part(const Layer& c, RankContext& here, const Split& split, const Samples& own) {
  const auto model = lockstep::sync_batch_norm(here, c.norm, here.group_of(split.group));
  set_state(*model, c);
  record_kernels(here);
  for (int step = 0; step < c.steps; ++step) {
    const auto whole = whole_of(c, step);
    model->zero_grad();
    here.enter(step, split.name);
    const auto input = part_of(whole.input, own).detach().requires_grad_();
    const auto output = model->forward(input);
    output.backward(part_of(whole.cotangent, own));
    here.record(kOutput, output);
    here.record(kInputGradient, gradient_or_nothing(input));
    for (const auto& parameter : model->named_parameters())
      here.record(parameter.key() + " gradient", gradient_or_nothing(parameter.value()));
    for (const auto& buffer : model->named_buffers()) here.record(buffer.key(), *buffer);
  }
}

// Empty records of a rank outside the group, so that every rank has every row.
void stand_by(const Layer& c, RankContext& here, const Split& split) {
  for (int step = 0; step < c.steps; ++step) {
    here.enter(step, split.name);
    for (const char* name : {kOutput, kInputGradient})
      here.record(name, part_of(whole_of(c, step).input, {}));
    for (const char* name : {kWeightGradient, kBiasGradient})
      if (c.norm.affine) here.record(name, torch::zeros({c.norm.channels}, parameter_dtype_of(c)));
    for (const char* name : {kRunningMean, kRunningVar, kBatches})
      if (c.norm.track_running_stats) here.record(name, std::vector<int64_t>{});
  }
}

void program(const Layer& c, RankContext& here) {
  if (!here.subject().sync_batch_norm) lockstep::sync_batch_norm(here, c.norm);
  for (const auto& split : splits_of(c)) {
    const bool takes_part = std::count(split.group.begin(), split.group.end(), here.rank()) > 0;
    if (takes_part)
      take_part(c, here, split, split.by_rank[static_cast<size_t>(here.rank())]);
    else
      stand_by(c, here, split);
  }
}

// The definition's values under a split; only their bounds are used.
std::vector<Step> expected_under(const Layer& c, const History& h, const Split& split) {
  return expected_steps(c, computing_of(c, h), [&](int step) {
    const auto whole = whole_of(c, step);
    std::vector<reference::BatchPart> parts;
    for (const auto& own : split.by_rank)
      parts.push_back({part_of(whole.input, own).to(at::kDouble).contiguous(),
                       part_of(whole.cotangent, own).to(at::kDouble).contiguous()});
    return parts;
  });
}

at::Tensor doubles(const TensorValue& value) {
  return torch::tensor(as_doubles(value), at::kDouble).reshape(value.shape);
}

// All ranks' samples, in the order of the batch.
at::Tensor put_together(const std::vector<TensorValue>& by_rank, const Split& split) {
  std::vector<size_t> order(by_rank.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return split.by_rank[a].begin < split.by_rank[b].begin;
  });
  std::vector<at::Tensor> parts;
  for (const auto rank : order) parts.push_back(doubles(by_rank[rank]));
  return at::cat(parts);
}

// Compares the ranks' values of whole batches under the first split and another one.
class SplitComparison {
 public:
  SplitComparison(const Layer& c, const History& h, const Split& first, const Split& split)
      : case_(c),
        history_(h),
        first_(first),
        split_(split),
        bounds_first_(expected_under(c, h, first)),
        bounds_(expected_under(c, h, split)) {}

  // Comparisons of all ranks.
  std::vector<Comparison> of_samples(int step) const {
    std::vector<Comparison> out{samples(step, kOutput), samples(step, kInputGradient)};
    if (case_.norm.affine)
      for (const char* name : {kWeightGradient, kBiasGradient}) out.push_back(sum(step, name));
    return explained(std::move(out));
  }

  // Comparisons of the ranks that take part.
  std::vector<Comparison> of_statistics(int step) const {
    std::vector<Comparison> out;
    if (case_.norm.track_running_stats)
      for (const char* name : {kRunningMean, kRunningVar, kBatches})
        out.push_back(statistics(step, name));
    return explained(std::move(out));
  }

 private:
  static std::vector<Comparison> explained(std::vector<Comparison> rows) {
    const auto depends_on_the_split = [](const Difference&) {
      return std::optional(
          Diagnosis{"depends_on_the_split",
                    "what comes of a batch depends on how it is split over the ranks"});
    };
    for (auto& row : rows) row.explanations = [=] { return Explanations{depends_on_the_split}; };
    return rows;
  }

  const ByRank& right_first(int step, const char* name) const {
    return bounds_first_[static_cast<size_t>(step)].at(name);
  }
  const ByRank& right(int step, const char* name) const {
    return bounds_[static_cast<size_t>(step)].at(name);
  }
  Row first_row(int step, const char* name) const {
    return history_.row({step, first_.name}, name);
  }

  Comparison samples(int step, const char* name) const {
    Comparison out{.row = history_.row({step, split_.name}, name), .expected = {}};
    const auto whole = put_together(first_row(step, name).by_rank, first_);
    const auto bound = put_together(right_first(step, name).bounds, first_) +
                       put_together(right(step, name).bounds, split_);
    for (const auto& own : split_.by_rank) {
      out.expected.push_back(recorded(part_of(whole, own), dtype_of(case_)));
      out.bounds.push_back(value_of(part_of(bound, own).contiguous()));
    }
    return out;
  }

  // The sum over the ranks, as a row that each of them holds.
  Comparison sum(int step, const char* name) const {
    const auto summed = [](const std::vector<TensorValue>& by_rank, bool of_sizes) {
      auto total = torch::zeros(by_rank.front().shape, at::kDouble);
      for (const auto& own : by_rank) total += of_sizes ? doubles(own).abs() : doubles(own);
      return total;
    };
    Row row = history_.row({step, split_.name}, name);
    const auto first = first_row(step, name).by_rank;
    // The sums round in double precision themselves.
    const auto rounded = (summed(row.by_rank, true) + summed(first, true)) *
                         std::ldexp(static_cast<double>(row.by_rank.size()), -52);
    const auto bound = summed(right_first(step, name).bounds, false) +
                       summed(right(step, name).bounds, false) + rounded;
    const auto total = value_of(summed(row.by_rank, false));
    row.name = "sum over the ranks of " + row.name;
    for (auto& own : row.by_rank) own = total;
    return {.row = std::move(row),
            .expected = {value_of(summed(first, false))},
            .bounds = {value_of(bound)}};
  }

  Comparison statistics(int step, const char* name) const {
    Comparison out{.row = of_group(history_.row({step, split_.name}, name), split_.group),
                   .expected = {first_row(step, name).by_rank.front()}};
    if (right(step, name).bounds.empty()) return out;
    out.bounds = {value_of(doubles(right_first(step, name).bounds.front()) +
                           doubles(right(step, name).bounds.front()))};
    return out;
  }

  const Layer& case_;
  const History& history_;
  const Split &first_, &split_;
  std::vector<Step> bounds_first_, bounds_;
};

Findings every_split_gives_the_same(const Layer& c, const History& h) {
  const auto splits = splits_of(c);
  Findings out;
  for (size_t other = 1; other < splits.size(); ++other) {
    const SplitComparison comparison(c, h, splits.front(), splits[other]);
    for (int step = 0; step < c.steps; ++step)
      for (const auto& rows : {comparison.of_samples(step), comparison.of_statistics(step)})
        out += equal("A batch must give the same however it is split over the ranks", rows);
  }
  return out;
}

Findings ranks_hold_the_same_running_statistics(const Layer& c, const History& h) {
  if (!c.norm.track_running_stats) return {};
  Findings out;
  for (const auto& split : splits_of(c))
    for (int step = 0; step < c.steps; ++step) {
      std::vector<Row> rows;
      for (const char* name : {kRunningMean, kRunningVar, kBatches})
        rows.push_back(of_group(h.row({step, split.name}, name), split.group));
      out += alike("Every rank must hold the same bits of running statistics as the others", rows);
    }
  return out;
}

std::vector<Layer> every_small_one() {
  std::vector<Layer> all;
  for (const int world : {1, 2, 3, 5})
    for (const auto& samples : std::vector<std::vector<int>>{{}, {6, 2}, {0, 4}, {1}, {0}})
      all.push_back({.world = {.size = world},
                     .steps = 2,
                     .norm = {.channels = 2},
                     .spatial = {2},
                     .samples = samples,
                     .values = world == 2 ? Values::exact : Values::real,
                     .seed = 12});
  return all;
}

rc::Gen<Layer> layers() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  const auto any = gen::build<Layer>(
      set(&Layer::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Layer::norm,
          gen::build<NormOptions>(set(&NormOptions::channels, inRange<int64_t>(1, 5)),
                                  set(&NormOptions::eps_log2, inRange<int64_t>(-17, 2)),
                                  set(&NormOptions::cumulative), set(&NormOptions::affine),
                                  set(&NormOptions::track_running_stats))),
      set(&Layer::spatial, rc::gen::elementOf(std::vector<std::vector<int>>{{}, {3}, {2, 2}})),
      set(&Layer::average_log2, element(0, 0, 8, 12)),
      set(&Layer::samples, gen::lists(3, inRange(0, 7))),
      set(&Layer::dtype, element(Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16)),
      set(&Layer::values, element(Values::exact, Values::real)),
      set(&Layer::seed, inRange<uint64_t>(0, 1 << 20)));
  return gen::map(any, [](Layer c) {
    if (values_per_channel(c) == 1) c.samples = {};
    return c;
  });
}

}  // namespace

Scenario split_does_not_matter() {
  return scenario<Layer>({
      .name = "sync_batch_norm.split_does_not_matter",
      .claim = "However a batch is split over the ranks, SyncBatchNorm gives the same output and "
               "gradients.",
      .in_full = "In any group; and running statistics, and sums of the parameters' gradients.",
      .exactness = "within rounding",
      .source = "docs/semantics.md 3; metamorphic testing (Chen, Cheung and Yiu 1998)",
      .not_covered = "what is the same under every split (sync_batch_norm.matches_single_process)",
      .usual_mistake = "statistics that weight ranks equally, or count them.",
      .tags = {"sync_batch_norm"},
      .must_catch = {"sync_batch_norm_averages_unweighted",
                     "sync_batch_norm_variance_between_ranks_left_out",
                     "sync_batch_norm_running_count_taken_from_own",
                     "sync_batch_norm_backward_local"},
      .draws = 40,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = layers(),
      .precondition = why_no_variance,
      .program = program,
      .checks = {every_split_gives_the_same, ranks_hold_the_same_running_statistics},
      .labels = labels_of_batches(0.3, 0.4),
      .unused = {"upstream", "layout", "gradient_layout", "frozen", "half_parameters", "threads"},
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm_split_does_not_matter
