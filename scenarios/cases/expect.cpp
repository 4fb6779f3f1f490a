#include "scenarios/cases/expect.h"

#include "harness/base/text.h"
#include "harness/cases/scenario.h"

#include <torch/torch.h>

#include <cmath>
#include <optional>

namespace lockstep::scenarios {

reference::Format format_of(const Training& c) {
  return {.precision_bits = precision_bits(c.dtype), .exact = c.values == Values::exact};
}

namespace {

using reference::Gradients;
using reference::Rounded;

std::vector<reference::Branch> branches(const Training& c, const std::vector<Rounded>& values) {
  std::vector<reference::Branch> out;
  size_t next = 0;
  for (int b = 0; b < c.network.branches; ++b) {
    reference::Branch branch;
    for (const auto& layer : c.network.hidden) {
      reference::Dense dense{.weight = values[next++], .bias = {}, .relu = layer.relu};
      if (layer.bias) dense.bias = values[next++];
      branch.push_back(dense);
    }
    const auto& weight = values[next++];
    branch.push_back({.weight = weight, .bias = values[next++]});
    out.push_back(std::move(branch));
  }
  return out;
}

// One process's gradients of `part` of every batch of a step, after each of its batches.
std::vector<Gradients> gradients_of(const Training& c, int step, const Part& part, double weight,
                                    const std::vector<reference::Branch>& network) {
  std::vector<Gradients> after;
  for (int m = 0; m < c.micro_batches; ++m) {
    const int at = batch_index(c, step, m);
    const reference::Batch batch{inputs(c, at, part).to(at::kDouble),
                                 cotangents(c, at, part).to(at::kDouble)};
    const auto own = reference::gradients(network, batch, weight, format_of(c));
    after.push_back(m == 0 ? own : reference::accumulated({after.back(), own}, format_of(c)));
  }
  return after;
}

void require(bool holds, int step, const std::string& why_not) {
  if (!holds) throw Refused("no reference at step " + std::to_string(step) + ": " + why_not);
}

std::vector<Rounded> updated(const Training& c, const std::vector<Rounded>& parameters,
                             const std::vector<Rounded>& gradients, int step) {
  const double rate = std::ldexp(1.0, c.learning_rate_log2);
  std::vector<Rounded> out;
  reference::Arithmetic arithmetic(format_of(c));
  for (size_t p = 0; p < parameters.size(); ++p) {
    out.push_back(arithmetic.plus(parameters[p], arithmetic.times(gradients[p], -rate)));
    const auto& value = out.back().value;
    const bool fits = at::equal(value.to(dtype_of(c)).to(at::kDouble), value);
    require(c.values == Values::real || fits, step, "the updated parameters need more bits");
  }
  return out;
}

Gradients average_of(const std::vector<Gradients>& by_rank) {
  Gradients out;
  for (size_t p = 0; p < by_rank.front().by_parameter.size(); ++p) {
    auto sum = at::zeros_like(by_rank.front().by_parameter[p].value);
    for (const auto& rank : by_rank) sum = sum + rank.by_parameter[p].value;
    out.by_parameter.push_back(reference::given(sum / static_cast<double>(by_rank.size())));
  }
  return out;
}

// `whole`: the gradients of the whole batch on one process; none: the ranks have no common network.
ExpectedStep expected_step(const Training& c, int step,
                           const std::vector<std::vector<reference::Branch>>& networks,
                           const std::optional<Gradients>& of_one_process) {
  ExpectedStep out;
  out.accumulated.resize(static_cast<size_t>(c.micro_batches));
  std::vector<Gradients> by_rank;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto after = gradients_of(c, step, part_of_batch(c, rank), loss_weight(c),
                                    networks[static_cast<size_t>(rank)]);
    for (size_t m = 0; m < after.size(); ++m) out.accumulated[m].push_back(after[m].by_parameter);
    require(!after.back().is_undecided, step, "rounding decides whether a relu passes");
    by_rank.push_back(after.back());
  }
  const auto whole = of_one_process ? *of_one_process : average_of(by_rank);
  if (c.values == Values::exact) {
    const auto why_not = reference::why_not_exact(by_rank, whole, format_of(c));
    require(why_not.empty(), step, why_not);
  }
  out.average = reference::averages(by_rank, whole, format_of(c));
  return out;
}

ExpectedStep expected_step(const Training& c, int step, const std::vector<Rounded>& parameters) {
  const auto network = branches(c, parameters);
  const auto whole = gradients_of(c, step, {0, batch_size(c)},
                                  loss_weight(c) / static_cast<double>(c.world.size), network)
                         .back();
  require(!whole.is_undecided, step, "rounding decides whether a relu passes");
  return expected_step(c, step, std::vector(static_cast<size_t>(c.world.size), network), whole);
}

}  // namespace

ExpectedStep expected_step_from(const Training& c, int step,
                                const std::vector<std::vector<Rounded>>& held) {
  std::vector<std::vector<reference::Branch>> networks;
  for (const auto& parameters : held) networks.push_back(branches(c, parameters));
  return expected_step(c, step, networks, std::nullopt);
}

std::string why_no_reference(const Training& c) {
  return c.optimizer == OptimizerKind::none || c.optimizer == OptimizerKind::sgd
             ? ""
             : "no reference for the optimizer '" + word_of(c.optimizer) + "'";
}

std::vector<ExpectedStep> expected_steps(const Training& c) {
  if (const auto why = why_no_reference(c); !why.empty()) throw Refused(why);
  std::vector<Rounded> parameters;
  for (const auto& start : initial_parameters(c, build_seed(c, 0)))
    parameters.push_back(reference::given(start.value.to(at::kDouble)));
  std::vector<ExpectedStep> steps;
  for (int step = 0; step < c.steps; ++step) {
    auto expected = expected_step(c, step, parameters);
    if (c.optimizer == OptimizerKind::sgd)
      parameters = updated(c, parameters, expected.average, step);
    expected.parameters_after = parameters;
    steps.push_back(std::move(expected));
  }
  return steps;
}

Comparison compared(const Training& c, Row row, const Rounded& right) {
  return compared(c, std::move(row), std::vector<Rounded>{right});
}

Comparison compared(const Training& c, Row row, const std::vector<Rounded>& by_rank) {
  Comparison out{.row = std::move(row), .expected = {}};
  for (const auto& right : by_rank) {
    auto one = written(right, dtype_of(c));
    out.expected.push_back(std::move(one.value));
    if (c.values == Values::real) out.bounds.push_back(std::move(one.bound));
  }
  return out;
}

std::vector<TensorValue> recorded(const std::vector<std::vector<Rounded>>& by_rank, size_t p,
                                  double scale, const Training& c) {
  std::vector<TensorValue> out;
  for (const auto& rank : by_rank) out.push_back(recorded(rank[p].value * scale, dtype_of(c)));
  return out;
}

namespace {

// The average of the ranks' own averages: the result without the weight of each part.
at::Tensor unweighted(const Training& c, const ExpectedStep& step, size_t p) {
  auto sum = at::zeros_like(step.average[p].value);
  for (int rank = 0; rank < c.world.size; ++rank) {
    const Part part = part_of_batch(c, rank);
    const auto samples = static_cast<double>(part.end - part.begin);
    if (samples == 0) continue;
    const double weight = static_cast<double>(batch_size(c)) / (c.world.size * samples);
    sum = sum + step.local()[static_cast<size_t>(rank)][p].value * weight;
  }
  return sum / c.world.size;
}

std::vector<TensorValue> on_every_rank(const Training& c, const at::Tensor& value) {
  return {recorded(value, dtype_of(c))};
}

void operator+=(Explanations& all, const Explanations& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// The average if rank `rank` had contributed `instead`, divided by the world size or not.
std::vector<TensorValue> with_share(const Training& c, const ExpectedStep& step, size_t rank,
                                    size_t p, const at::Tensor& instead) {
  const auto right = step.local()[rank][p].value / c.world.size;
  return on_every_rank(c, step.average[p].value - right + instead);
}

int ranks_with_samples(const Training& c) {
  int count = 0;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const Part part = part_of_batch(c, rank);
    count += part.end > part.begin ? 1 : 0;
  }
  return count;
}

// Every rank contributed the right gradient, with the wrong weight.
Explanations wrong_shares(const Training& c, const ExpectedStep& step, size_t p) {
  const auto& average = step.average[p].value;
  const auto elements = static_cast<double>(average.numel());
  Explanations out{
      recorded_instead({"divided_by_elements",
                        "the sum divided by the number of elements, not by the world size"},
                       on_every_rank(c, average * c.world.size / elements)),
      average_of_averages(on_every_rank(c, unweighted(c, step, p)))};
  for (size_t rank = 0; rank < step.local().size(); ++rank)
    out.push_back(
        recorded_instead({"one_rank_undivided", "the gradient of rank " + std::to_string(rank) +
                                                    " was summed without being divided by the "
                                                    "world size"},
                         with_share(c, step, rank, p, step.local()[rank][p].value)));
  return out;
}

// The reduction gave something other than the sum of the ranks' contributions.
Explanations wrong_reductions(const Training& c, const ExpectedStep& step, size_t p) {
  auto largest = step.local().front()[p].value;
  std::vector<TensorValue> added;
  for (const auto& local : step.local()) {
    largest = at::maximum(largest, local[p].value);
    added.push_back(recorded(local[p].value + step.average[p].value, dtype_of(c)));
  }
  const Diagnosis is_largest{
      "largest_not_sum", "the largest of the ranks' gradients, element by element, not their sum"};
  return {
      not_reduced(recorded(step.local(), p, 1, c)),
      recorded_instead({"scaled_not_reduced",
                        "each holds its own local gradient, already divided by the world size: its "
                        "bucket was packed and never reduced"},
                       recorded(step.local(), p, 1.0 / c.world.size, c)),
      recorded_instead(
          {"rank_zeros_gradient", "rank 0's own gradient on every rank: copied, not averaged"},
          on_every_rank(c, step.local().front()[p].value)),
      recorded_instead(is_largest, on_every_rank(c, largest / c.world.size)),
      recorded_instead(is_largest, on_every_rank(c, largest)),
      recorded_instead({"added_not_written",
                        "the average added to the rank's own gradient, in whose place it belongs"},
                       added)};
}

// The sum lacks a rank, or the divisor those without samples. Tried last, since many mistakes leave
// zero.
Explanations ranks_left_out(const Training& c, const ExpectedStep& step, size_t p) {
  const auto& average = step.average[p].value;
  Explanations out;
  for (size_t rank = 0; rank < step.local().size(); ++rank)
    out.push_back(
        recorded_instead({"one_rank_left_out", "the average without the gradient of rank " +
                                                   std::to_string(rank) + ", divided by all ranks"},
                         with_share(c, step, rank, p, at::zeros_like(average))));
  if (const int used = ranks_with_samples(c); used > 0 && used < c.world.size)
    out.push_back(recorded_instead(
        {"empty_ranks_not_counted", "the sum divided by the " + std::to_string(used) +
                                        " ranks that have samples, not by the world size"},
        on_every_rank(c, average * c.world.size / used)));
  return out;
}

// Values of the step before: in what the ranks hold, or in what one of them contributed.
Explanations stale_values(const Training& c, const ExpectedStep& step, const ExpectedStep& before,
                          size_t p) {
  Explanations out{last_steps_value(on_every_rank(c, before.average[p].value)),
                   last_steps_value(recorded(before.local(), p, 1, c))};
  for (size_t rank = 0; rank < step.local().size(); ++rank) {
    const Diagnosis is_stale{"last_steps_gradient", "rank " + std::to_string(rank) +
                                                        " put in what its bucket held one step "
                                                        "earlier"};
    const auto share = before.local()[rank][p].value / c.world.size;
    for (const auto& held : {share, before.average[p].value})
      out.push_back(recorded_instead(is_stale, with_share(c, step, rank, p, held)));
  }
  return out;
}

// The weight of each rank's part of the batch applied once too often, or divided out.
Explanations batch_ratios(const Training& c) {
  std::vector<double> times, over;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const Part part = part_of_batch(c, rank);
    const double ratio = loss_weight(c) * static_cast<double>(part.end - part.begin);
    times.push_back(ratio);
    over.push_back(ratio == 0 ? 0 : 1 / ratio);
  }
  return {off_by_batch_ratio(times), off_by_batch_ratio(over)};
}

}  // namespace

Explanations averaging_mistakes(const Training& c, const std::vector<ExpectedStep>& steps, int s,
                                size_t p) {
  const auto& step = steps[static_cast<size_t>(s)];
  Explanations out{sum_not_average("gradients"), divided_twice()};
  out += wrong_shares(c, step, p);
  out += wrong_reductions(c, step, p);
  if (s > 0) out += stale_values(c, step, steps[static_cast<size_t>(s) - 1], p);
  out += batch_ratios(c);
  out += ranks_left_out(c, step, p);
  const auto names = trainable(c);
  std::vector<Contribution> contributions;
  for (size_t other = 0; other < names.size(); ++other)
    contributions.push_back({names[other], recorded(step.local(), other, 1.0 / c.world.size, c)});
  out.push_back(summed_under_other_names(names[p], contributions));
  return out;
}

Row of_group(const Row& row, const std::vector<int>& group) {
  if (group.size() == row.by_rank.size()) return row;
  std::vector<std::string> ranks;
  Row out{row.at, "", {}};
  for (const int rank : group) {
    ranks.push_back(std::to_string(rank));
    out.by_rank.push_back(row.by_rank.at(static_cast<size_t>(rank)));
  }
  out.name = row.name + " in the group of ranks " + joined(ranks, ",");
  return out;
}

}  // namespace lockstep::scenarios
