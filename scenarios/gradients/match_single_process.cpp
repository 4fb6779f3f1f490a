// After backward every rank holds the gradient that one process computes on the whole batch.
//
// Every rank builds its network from another seed, so the initial broadcast matters; every rank has
// other data, in parts of unequal size, so a stale, local or wrongly weighted gradient shows. The
// rank's loss is its sum over samples times W / N, which is the average over its own n samples
// times W n / N: the weight under which the average over ranks is the average over the batch.
//
// Why the checks suffice: inputs, parameters and weights are whole numbers times powers of two, and
// the reference certifies that no sum of any order rounds; then every correct algorithm, bucket
// layout and order gives the same bits and the tolerance is zero. Ranks that agree with each other
// and are all wrong differ from the reference, which uses no autograd and no collective. Each rank
// runs its branches in another order, so gradients become ready in another order. Where values are
// real the reference bounds the rounding error, and ranks are also compared bit for bit.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/network.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::gradients_match_single_process {
namespace {

// Branches of one layer would have equal gradients, and swapped gradients would not show.
std::vector<DenseLayer> layers_of(int branches) {
  return branches == 1 ? std::vector<DenseLayer>{} : std::vector<DenseLayer>{{.width = 2}};
}

// The smallest worlds in which each usual mistake shows, in addition to the drawn cases.
std::vector<Training> every_small_one() {
  std::vector<Training> all;
  for (const int world : {2, 3})
    for (const int steps : {1, 2})
      for (const int branches : {1, 2})
        for (const bool order_by_rank : {false, true})
          for (const int64_t cap : {0, 1})
            for (const auto& shares : std::vector<std::vector<int>>{{}, {1, 3}})
              all.push_back({.world = {.size = world},
                             .steps = steps,
                             .network = {.hidden = layers_of(branches),
                                         .branches = branches,
                                         .inputs = 3,
                                         .order_by_rank = order_by_rank},
                             .batch_log2 = 2,
                             .shares = shares,
                             .options = {.bucket_cap_bytes = cap},
                             .seed = 1});
  return all;
}

void program(const Training& world, RankContext& here) {
  const auto group = group_of(world, here.rank());
  const Training c = case_of_group(world, group);
  const int rank = here.rank() - group.front();
  const auto model = std::make_shared<Network>(c, build_seed(c, rank));
  if (c.network.order_by_rank) model->set_first_branch(rank);
  const auto replica = wrap(here, model, c.options, here.group_of(group));
  here.enter(0, "wrapped");
  record_parameters(here, *model);
  torch::optim::SGD optimizer(model->parameters(), std::ldexp(1.0, c.learning_rate_log2));
  for (int step = 0; step < c.steps; ++step) {
    optimizer.zero_grad();
    const auto take = [&](int micro_batch) {
      here.enter(step, "forward");
      const auto loss = loss_of_part(c, batch_index(c, step, micro_batch), rank, *replica);
      here.enter(step, "backward");
      replica->backward(loss);
    };
    for (int m = 0; m + 1 < c.micro_batches; ++m) replica->no_sync([&] { take(m); });
    take(c.micro_batches - 1);
    here.enter(step, "after backward");
    record_gradients(here, *model);
    if (c.optimizer == OptimizerKind::sgd) optimizer.step();
    here.enter(step, "after update");
    record_parameters(here, *model);
  }
}

// Judges every group of ranks as a separate world.
template <class Judge>
Findings in_each_group(const Training& world, const Judge& judge) {
  Findings out;
  for (int rank = 0; rank < world.world.size;) {
    const auto group = group_of(world, rank);
    out += judge(case_of_group(world, group), group);
    rank += static_cast<int>(group.size());
  }
  return out;
}

Findings start_is_rank_zeros(const Training& c, const History& h, const std::vector<int>& group) {
  std::vector<Comparison> rows;
  const auto right = initial_parameters(c, build_seed(c, 0));
  for (size_t p = 0; p < right.size(); ++p) {
    const auto own_values = [c, p] {
      std::vector<TensorValue> own;
      for (int rank = 0; rank < c.world.size; ++rank)
        own.push_back(recorded(initial_parameters(c, build_seed(c, rank))[p].value, dtype_of(c)));
      return initial_states(own);
    };
    rows.push_back({.row = of_group(h.row({0, "wrapped"}, right[p].name), group),
                    .expected = {recorded(right[p].value, dtype_of(c))},
                    .explanations = own_values});
  }
  return equal("Every replica must start from rank 0's parameters", rows);
}

Explanation divided_by_the_world(const Training& c, const Training& world,
                                 const at::Tensor& average) {
  return recorded_instead(
      {"divided_by_the_world", "the sum over the group divided by the size of the whole world"},
      {recorded(average * c.world.size / world.world.size, dtype_of(c))});
}

Findings gradients_are_averages(const Training& world, const Training& c, const History& h,
                                const std::vector<int>& group,
                                const std::vector<ExpectedStep>& steps, int s) {
  const auto names = trainable(c);
  std::vector<Comparison> rows;
  for (size_t p = 0; p < names.size(); ++p) {
    const auto& right = steps[static_cast<size_t>(s)].average[p];
    rows.push_back(compared(c, of_group(h.row({s, "after backward"}, names[p]), group), right));
    rows.back().explanations = [&, s, p] {
      auto mistakes = averaging_mistakes(c, steps, s, p);
      if (c.world.size < world.world.size)
        mistakes.insert(mistakes.begin(), divided_by_the_world(c, world, right.value));
      return mistakes;
    };
  }
  return equal("After backward every rank must hold the gradient of one process on the whole batch",
               rows);
}

Findings parameters_are_updated(const Training& c, const History& h, const std::vector<int>& group,
                                const ExpectedStep& step, int s) {
  const auto names = trainable(c);
  std::vector<Comparison> rows;
  for (size_t p = 0; p < names.size(); ++p)
    rows.push_back(compared(c, of_group(h.row({s, "after update"}, names[p]), group),
                            step.parameters_after[p]));
  return equal("After the update every rank must hold the parameters of one process", rows);
}

// The trainable parameters of each rank before step s.
std::vector<std::vector<reference::Rounded>> held_before(const Training& c, const History& h,
                                                         const std::vector<int>& group, int s) {
  const auto at = s == 0 ? Moment{0, "wrapped"} : Moment{s - 1, "after update"};
  std::vector<std::vector<reference::Rounded>> out(group.size());
  for (const auto& name : trainable(c)) {
    const auto row = of_group(h.row(at, name), group);
    for (size_t rank = 0; rank < out.size(); ++rank)
      out[rank].push_back(reference::given(
          torch::tensor(as_doubles(row.by_rank[rank]), at::kDouble).view(row.by_rank[rank].shape)));
  }
  return out;
}

Findings replicas_start_as_rank_zero(const Training& world, const History& h) {
  return in_each_group(world, [&](const Training& c, const std::vector<int>& group) {
    return start_is_rank_zeros(c, h, group);
  });
}

// Up to the first step that is not that of one process; from there on averages alone, of the
// gradients that the ranks compute with what they then have.
Findings steps_are_those_of_one_process(const Training& world, const History& h) {
  return in_each_group(world, [&](const Training& c, const std::vector<int>& group) {
    Findings out;
    auto steps = expected_steps(c);
    bool is_as_one_process = start_is_rank_zeros(c, h, group).empty();
    for (int s = 0; s < c.steps; ++s) {
      auto& step = steps[static_cast<size_t>(s)];
      if (!is_as_one_process) try {
          step = expected_step_from(c, s, held_before(c, h, group, s));
        } catch (const Refused&) {
          break;
        }
      out += gradients_are_averages(world, c, h, group, steps, s);
      is_as_one_process = is_as_one_process && out.empty();
      if (is_as_one_process) out += parameters_are_updated(c, h, group, step, s);
      is_as_one_process = is_as_one_process && out.empty();
    }
    return out;
  });
}

Findings every_gradient_is_defined(const Training&, const History& h) {
  return gradients_are_defined(h.rows("after backward"));
}

// Independent of the reference: where numbers round, a bound alone would let ranks drift apart.
Findings ranks_hold_the_same_bits(const Training& world, const History& h) {
  return in_each_group(world, [&](const Training& c, const std::vector<int>& group) {
    Findings out;
    for (int s = 0; s < c.steps; ++s)
      for (const char* phase : {"after backward", "after update"}) {
        std::vector<Row> rows;
        for (const auto& name : trainable(c))
          rows.push_back(of_group(h.row({s, phase}, name), group));
        out += alike("Every rank must hold the same bits as the others", rows);
      }
    return out;
  });
}

// Windows of several micro-batches, one time in four.
rc::Gen<Training> cases() {
  return with(trainings(), &Training::micro_batches,
              rc::gen::weightedElement<int>({{6, 1}, {1, 2}, {1, 3}}));
}

rc::Gen<Training> in_groups() {
  const auto worlds = rc::gen::element(std::pair{4, 2}, std::pair{6, 2}, std::pair{6, 3});
  return gen::apply(
      [](Training c, const std::pair<int, int>& world) {
        c.world.size = world.first;
        c.groups = world.second;
        return c;
      },
      cases(), worlds);
}

std::vector<Training> smallest_groups() {
  return {{.world = {.size = 4}, .batch_log2 = 1, .groups = 2, .seed = 1},
          {.world = {.size = 4}, .batch_log2 = 2, .shares = {1, 3}, .groups = 2, .seed = 1},
          {.world = {.size = 6}, .batch_log2 = 2, .groups = 2, .seed = 1}};
}

}  // namespace

Scenario match_single_process() {
  return scenario<Training>({
      .name = "gradients.match_single_process",
      .claim = "After backward every rank holds the gradient of one process on the whole batch.",
      .in_full =
          "After backward every rank holds the gradient of one process on the whole batch: bit "
          "for bit where the numbers are exact, within a derived bound where they round.",
      .exactness = "bit-equal · real: bounded",
      .source = "torch.nn.parallel.DistributedDataParallel; Li et al. 2020; docs/semantics.md",
      .not_covered = "parameters without gradient, what micro-batches add up to before the last "
                     "one, values of buffers",
      .usual_mistake = "a sum where an average belongs, or an average of averages over parts of "
                       "unequal size.",
      .tags = {"core", "gradients"},
      .must_catch = {"average_left_out", "averaged_again_by_hand", "device_packs_on_a_stream_aside",
                     "device_sum_not_awaited", "divided_by_elements", "divided_twice",
                     "frozen_parameter_in_a_bucket", "initial_broadcast_left_out",
                     "last_bucket_alone_awaited", "last_bucket_never_launched",
                     "launched_by_local_readiness", "reduced_over_nobody"},
      .draws = 160,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_no_reference,
      .program = program,
      .checks = {replicas_start_as_rank_zero, every_gradient_is_defined,
                 steps_are_those_of_one_process, ranks_hold_the_same_bits},
      .judges_each_step = true,
      .labels = {{"three ranks and more", 0.4, has_three_ranks<Training>},
                 {"parts of unequal size", 0.4, has_unequal_parts},
                 {"an empty part", 0.3, has_empty_part},
                 {"several buckets", 0.25, has_several_buckets},
                 {"real values", 0.06, has_real_values<Training>},
                 {"a window of no_sync", 0.1,
                  [](const Training& c) { return c.micro_batches > 1; }}},
  });
}

Scenario average_over_the_group() {
  return scenario<Training>({
      .name = "gradients.average_over_the_group",
      .claim =
          "Ranks that train in separate groups hold their own group's average, whatever the world "
          "around them.",
      .exactness = "bit-equal · real: bounded",
      .source = "the process_group argument of torch.nn.parallel.DistributedDataParallel; "
                "docs/semantics.md 0.15",
      .not_covered = "groups of unequal size, groups that overlap",
      .usual_mistake =
          "dividing by the size of the world, or taking rank 0 of the world as source.",
      .tags = {"gradients"},
      .must_catch = {"divided_by_the_world_not_the_group"},
      .draws = 80,
      .start = {.world = {.size = 4}, .groups = 2},
      .every = smallest_groups,
      .cases = in_groups(),
      .precondition = why_no_reference,
      .program = program,
      .checks = {replicas_start_as_rank_zero, every_gradient_is_defined,
                 steps_are_those_of_one_process, ranks_hold_the_same_bits},
      .judges_each_step = true,
      .labels = {{"parts of unequal size", 0.4, has_unequal_parts},
                 {"several buckets", 0.2, has_several_buckets},
                 {"groups of three", 0.1,
                  [](const Training& c) { return c.world.size / c.groups == 3; }}},
  });
}

}  // namespace lockstep::scenarios::gradients_match_single_process
