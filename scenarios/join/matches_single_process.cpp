// A join in which exhausted ranks shadow their peers' collectives: every step sums over the ranks
// that have inputs and divides as the option says, and in the end all ranks hold the parameters of
// the last one that had inputs.
//
// An exhausted rank must take part in everything the others send: the order of buckets, buffers, a
// bucket of zeros for each of theirs, the map of used parameters. If it sends a bucket too few, its
// peers hang; if it sends its own last gradient, or divides by another number, all ranks agree on a
// wrong average. And since it makes no steps, its parameters are outdated when the loop ends.
//
// Why the checks suffice: gradients are whole multiples of 12, so that no division by 1 to 4
// rounds, and the reference is the sum of the ranks' gradients over a whole number, bit for bit.
// With the optimizer the network has no hidden layer, so that gradients do not depend on
// parameters, and parameters are the start less the sum of all averages. Every input has different
// data, and a step after the join shows that the object is still usable.
#include "harness/core/values.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/join/shrinking.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::join_matches_single_process {
namespace {

constexpr const char *kStep = "after backward", *kEnd = "after the join";
constexpr double kScale = 12;  // divisible by 1, 2, 3 and 4

double rate_of(const Shrinking& c) {
  return c.optimizer == "sgd" ? std::ldexp(1.0, c.learning_rate_log2) : 0.0;
}

void require_a_reference(const Shrinking& c) {
  if (c.world.size > 4) throw Refused("thirds and quarters are exact, other parts are not");
  if (c.optimizer == "sgd" && !c.network.hidden.empty())
    throw Refused("the optimizer moves what gradients of a hidden layer depend on");
  for (const auto& dtype : c.network.buffers)
    if (dtype != "int64" && dtype != "float32" && dtype != "float64")
      throw Refused("buffers must count");
}

void program(const Shrinking& c, RankContext& here) {
  const auto training = training_of(c);
  const auto model = std::make_shared<Network>(training, build_seed(training, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  torch::optim::SGD optimizer(model->parameters(), rate_of(c));
  // The gradients of each step, recorded later, since exhausted ranks have no moments in the join.
  std::vector<std::vector<at::Tensor>> gradients;
  const auto take = [&](int step) {
    optimizer.zero_grad();
    replica->backward(loss_of_part(training, step, here.rank(), *replica) *
                      (kScale / c.world.size));
    gradients.emplace_back();
    for (const auto& each : model->parameters())
      if (each.requires_grad()) gradients.back().push_back(gradient_or_nothing(each).clone());
  };
  replica->join(c.divides, [&] {
    for (int step = 0; step < inputs_of(c, here.rank()); ++step) {
      take(step);
      if (c.optimizer == "sgd") optimizer.step();
    }
  });
  const auto names = trainable(training);
  const auto nothing = torch::empty({0}, dtype_of(training));
  for (int step = 0; step < steps_of(c); ++step) {
    here.enter(step, kStep);
    const auto at = static_cast<size_t>(step);
    for (size_t p = 0; p < names.size(); ++p)
      here.record(names[p], at < gradients.size() ? gradients[at][p] : nothing);
  }
  here.enter(0, kEnd);
  record_parameters(here, *model);
  record_buffers(here, *model);
  take(steps_of(c));
  here.enter(steps_of(c), kStep);
  for (size_t p = 0; p < names.size(); ++p) here.record(names[p], gradients.back()[p]);
}

bool fits(const at::Tensor& value, const Training& c) {
  return at::equal(value.to(dtype_of(c)).to(at::kDouble), value);
}

// Parameter `p`'s sum over `ranks`, divided by `divisor`.
at::Tensor average(const Shrinking& c, const ExpectedStep& step, const std::vector<int>& ranks,
                   size_t divisor, size_t p) {
  auto sum = at::zeros_like(step.local().front()[p].value);
  for (const int rank : ranks) sum = sum + step.local()[static_cast<size_t>(rank)][p].value;
  return sum * (kScale / c.world.size) / static_cast<double>(divisor);
}

// The expected gradient of a step; the step after the join has all ranks again.
at::Tensor average(const Shrinking& c, const std::vector<ExpectedStep>& steps, int s, size_t p,
                   bool divides_by_world) {
  const bool is_after = s == steps_of(c);
  const auto ranks = ranks_with_inputs(c, is_after ? -1 : s);
  const auto all = static_cast<size_t>(c.world.size);
  const auto value =
      average(c, steps[static_cast<size_t>(s)], ranks, divides_by_world ? all : ranks.size(), p);
  if (!fits(value, training_of(c)))
    throw Refused("no reference at step " + std::to_string(s) + ": an average needs more bits");
  return value;
}

Findings steps_average_over_who_has_inputs(const Shrinking& c, const History& h) {
  require_a_reference(c);
  Findings out;
  const auto training = training_of(c);
  const auto steps = expected_steps(training);
  const auto names = trainable(training);
  const auto dtype = dtype_of(training);
  for (int s = 0; s <= steps_of(c); ++s) {
    const auto by_rank = [&, s](const at::Tensor& value) {
      std::vector<TensorValue> values;
      for (int rank = 0; rank < c.world.size; ++rank)
        values.push_back(s == steps_of(c) || inputs_of(c, rank) > s
                             ? recorded(value, dtype)
                             : recorded(torch::empty({0}), dtype));
      return values;
    };
    std::vector<Comparison> rows;
    for (size_t p = 0; p < names.size(); ++p) {
      const bool by_world = c.divides == "world";
      rows.push_back({.row = h.row({s, kStep}, names[p]),
                      .expected = by_rank(average(c, steps, s, p, by_world))});
      rows.back().explanations = [&, s, p, by_rank, by_world] {
        return Explanations{recorded_instead(
            {"divided_by_the_other_count",
             "an average over the world size where who has inputs should count, or the reverse"},
            by_rank(average(c, steps, s, p, !by_world)))};
      };
    }
    out += equal(
        "Every rank that has inputs must hold the sum over those ranks, divided by the world size "
        "or by their number",
        rows);
  }
  return out;
}

Findings all_end_with_the_last_ones_state(const Shrinking& c, const History& h) {
  require_a_reference(c);
  const auto training = training_of(c);
  const auto steps = expected_steps(training);
  const auto start = initial_parameters(training, build_seed(training, 0));
  std::vector<Comparison> rows;
  for (size_t p = 0; p < start.size(); ++p) {
    auto value = start[p].value.to(at::kDouble);
    for (int s = 0; s < steps_of(c); ++s) {
      value = value - average(c, steps, s, p, c.divides == "world") * rate_of(c);
      if (!fits(value, training)) throw Refused("no reference: the parameters need more bits");
    }
    rows.push_back({.row = h.row({0, kEnd}, start[p].name),
                    .expected = {recorded(value, dtype_of(training))}});
  }
  const auto count = samples_counted(c)[static_cast<size_t>(last_to_join(c))];
  for (const auto& buffer : initial_buffers(training, build_seed(training, 0)))
    rows.push_back({.row = h.row({0, kEnd}, buffer.name),
                    .expected = {recorded(buffer.value + count, buffer.value.scalar_type())}});
  return equal(
      "After the join every rank must hold the parameters and buffers of the last rank to join",
      rows);
}

const std::vector<std::vector<int>> kInputs{{},     {0},    {1, 2},    {2, 1},       {0, 1},
                                            {3, 0}, {3, 2}, {1, 2, 3}, {2, 0, 3, 1}, {0, 0, 2}};

std::vector<Shrinking> every_small_one() {
  std::vector<Shrinking> all;
  for (const int world : {2, 3, 4})
    for (const auto& inputs : kInputs)
      for (const char* divides : {"world", "live"})
        for (const char* optimizer : {"none", "sgd"})
          all.push_back({.world = {.size = world},
                         .inputs = inputs,
                         .divides = divides,
                         .optimizer = optimizer,
                         .network = {.branches = 2, .buffers = {"int64"}, .order_by_rank = true},
                         .batch_log2 = 2,
                         .options = {.bucket_cap_bytes = 1},
                         .seed = 6});
  return all;
}

rc::Gen<Shrinking> cases() {
  return rc::gen::apply(
      [](const Training& t, const std::vector<int>& inputs, bool by_world) {
        Shrinking c{.world = t.world,
                    .inputs = inputs,
                    .divides = by_world ? "world" : "live",
                    .optimizer = t.optimizer,
                    .learning_rate_log2 = t.learning_rate_log2,
                    .network = t.network,
                    .batch_log2 = t.batch_log2,
                    .shares = t.shares,
                    .options = t.options,
                    .dtype = t.dtype,
                    .seed = t.seed};
        std::erase(c.network.buffers, "bool");
        if (c.optimizer == "sgd") c.network.hidden.clear();
        // A join of this kind is refused with static_graph.
        c.options.static_graph = false;
        c.options.skip_all_reduce_unused_params =
            c.options.skip_all_reduce_unused_params && c.options.find_unused_parameters;
        return c;
      },
      trainings(), rc::gen::container<std::vector<int>>(4, rc::gen::inRange(0, 5)),
      rc::gen::arbitrary<bool>());
}

}  // namespace

Scenario matches_single_process() {
  return scenario<Shrinking>({
      .name = "join.matches_single_process",
      .claim = "If ranks run out of inputs at different steps, each step holds the sum of the "
               "gradients of those that have inputs, divided by the world size or by their number, "
               "bit for bit; and all ranks end with the parameters and buffers of the last one.",
      .exactness = "bit-equal",
      .source = "torch.nn.parallel.DistributedDataParallel.join; docs/semantics.md 5",
      .not_covered = "optimizer state, gradients that are kept from step to step, windows of "
                     "no_sync",
      .usual_mistake = "expecting an optimizer's momentum to be equal on all ranks after it.",
      .tags = {"join"},
      .must_catch = {"join_divides_by_the_other_count", "join_ends_with_rank_zeros_state",
                     "join_stands_in_a_bucket_short"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {steps_average_over_who_has_inputs, all_end_with_the_last_ones_state},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Shrinking>},
                 {"uneven inputs", 0.4,
                  [](const Shrinking& c) { return differs_between_ranks(c.inputs, c.world.size); }},
                 {"a division by who has inputs", 0.15,
                  [](const Shrinking& c) { return c.divides == "live"; }},
                 {"an optimizer", 0.15, [](const Shrinking& c) { return c.optimizer == "sgd"; }}},
  });
}

std::vector<Scenario> all() {
  return {matches_single_process()};
}

}  // namespace lockstep::scenarios::join_matches_single_process
