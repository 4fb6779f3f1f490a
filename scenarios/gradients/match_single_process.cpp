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
// and are wrong together differ from the reference, which runs no autograd and no collective.
// Branches that each rank runs in another order make gradients arrive in another order.
#include "harness/core/compare.h"
#include "harness/world/rank_context.h"
#include "harness/world/subject.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/network.h"
#include "scenarios/catalogue.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios {
namespace {

rc::Gen<DenseLayer> layers() {
  return rc::gen::build<DenseLayer>(rc::gen::set(&DenseLayer::width, rc::gen::inRange(1, 5)),
                                    rc::gen::set(&DenseLayer::bias),
                                    rc::gen::set(&DenseLayer::relu));
}

rc::Gen<NetworkSpec> networks() {
  using rc::gen::inRange;
  return rc::gen::build<NetworkSpec>(
      rc::gen::set(&NetworkSpec::hidden,
                   rc::gen::mapcat(inRange<size_t>(0, 3),
                                   [](size_t count) {
                                     return rc::gen::container<std::vector<DenseLayer>>(count,
                                                                                        layers());
                                   })),
      rc::gen::set(&NetworkSpec::branches, inRange(1, 4)),
      rc::gen::set(&NetworkSpec::inputs, inRange(1, 4)), rc::gen::set(&NetworkSpec::order_by_rank));
}

rc::Gen<WrapOptions> wrap_options() {
  return rc::gen::build<WrapOptions>(rc::gen::set(
      &WrapOptions::bucket_cap_bytes, rc::gen::element<int64_t>(0, 1, 8, 16, 40, 100, 1 << 20)));
}

rc::Gen<Training> cases() {
  using rc::gen::inRange;
  const auto world = rc::gen::build<WorldSpec>(rc::gen::set(&WorldSpec::size, inRange(2, 5)));
  return rc::gen::build<Training>(
      rc::gen::set(&Training::world, world), rc::gen::set(&Training::steps, inRange(1, 4)),
      rc::gen::set(&Training::network, networks()),
      rc::gen::set(&Training::batch_log2, inRange(0, 5)),
      rc::gen::set(&Training::shares, rc::gen::mapcat(inRange<size_t>(0, 4),
                                                      [](size_t count) {
                                                        return rc::gen::container<std::vector<int>>(
                                                            count, rc::gen::inRange(0, 5));
                                                      })),
      rc::gen::set(&Training::update), rc::gen::set(&Training::learning_rate_log2, inRange(-3, 1)),
      rc::gen::set(&Training::options, wrap_options()),
      rc::gen::set(&Training::dtype,
                   rc::gen::weightedElement<std::string>({{3, "float32"}, {1, "float64"}})),
      rc::gen::set(&Training::seed, inRange<uint64_t>(0, 1 << 20)));
}

// The smallest worlds in which each usual mistake shows, whatever is drawn besides.
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
                             .network = {.branches = branches, .order_by_rank = order_by_rank},
                             .batch_log2 = 2,
                             .shares = shares,
                             .options = {.bucket_cap_bytes = cap},
                             .seed = 1});
  return all;
}

void record_all(RankContext& here, const torch::nn::Module& model, bool gradients) {
  for (const auto& parameter : model.named_parameters()) {
    const auto value = gradients ? parameter->grad() : parameter->detach();
    if (value.defined()) here.record(parameter.key(), value);
  }
}

void program(const Training& c, RankContext& here) {
  const auto model = std::make_shared<Network>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  here.enter(0, "wrapped");
  record_all(here, *model, /*gradients=*/false);
  torch::optim::SGD optimizer(model->parameters(), std::ldexp(1.0, c.learning_rate_log2));
  const Part part = part_of_batch(c, here.rank());
  for (int step = 0; step < c.steps; ++step) {
    optimizer.zero_grad();
    here.enter(step, "forward");
    const auto output = replica->forward(inputs(c, step, part));
    here.enter(step, "backward");
    replica->backward((output * cotangents(c, step, part)).sum() * loss_weight(c));
    here.enter(step, "after backward");
    record_all(here, *model, /*gradients=*/true);
    if (c.update) optimizer.step();
    here.enter(step, "after update");
    record_all(here, *model, /*gradients=*/false);
  }
}

Findings replicas_start_as_rank_zero(const Training& c, const History& h) {
  std::vector<Comparison> rows;
  const auto right = initial_parameters(c, build_seed(c, 0));
  for (size_t p = 0; p < right.size(); ++p) {
    const auto own_values = [&c, p] {
      std::vector<TensorValue> own;
      for (int rank = 0; rank < c.world.size; ++rank)
        own.push_back(recorded(initial_parameters(c, build_seed(c, rank))[p].value, dtype_of(c)));
      return Explanations{recorded_instead(
          {"own_initial_state",
           "every rank kept the values it was built with: nothing was broadcast from rank 0"},
          own)};
    };
    rows.push_back({.row = h.row({0, "wrapped"}, right[p].name),
                    .expected = {recorded(right[p].value, dtype_of(c))},
                    .explanations = own_values});
  }
  return equal("Every replica must start from rank 0's parameters", rows);
}

// What each rank put in of parameter `p`, times `scale`.
std::vector<TensorValue> local(const ExpectedStep& step, size_t p, double scale,
                               const Training& c) {
  std::vector<TensorValue> out;
  for (const auto& rank : step.local) out.push_back(recorded(rank[p] * scale, dtype_of(c)));
  return out;
}

Explanations usual_mistakes(const ExpectedStep& step, const std::vector<std::string>& names,
                            size_t p, const Training& c) {
  const double world = c.world.size;
  std::vector<Contribution> contributions;
  for (size_t other = 0; other < names.size(); ++other)
    contributions.push_back({names[other], local(step, other, 1 / world, c)});
  return {
      recorded_instead({"sum_not_average",
                        "the SUM of the ranks' gradients, not the average (every value is "
                        "world_size x too big)"},
                       {recorded(step.average[p] * world, dtype_of(c))}),
      recorded_instead({"divided_twice", "the average divided by the world size once more"},
                       {recorded(step.average[p] / world, dtype_of(c))}),
      recorded_instead(
          {"not_reduced", "every rank holds its own local gradient: its bucket was never reduced"},
          local(step, p, 1, c)),
      recorded_instead({"scaled_not_reduced",
                        "every rank holds its own local gradient, already divided by the world "
                        "size: its bucket was packed and never reduced"},
                       local(step, p, 1 / world, c)),
      summed_under_other_names(names[p], contributions),
  };
}

Findings gradients_are_the_whole_batchs(const Training& c, const History& h) {
  Findings out;
  const auto steps = expected_steps(c);
  std::vector<std::string> names;
  for (const auto& parameter : initial_parameters(c, 0)) names.push_back(parameter.name);
  for (int s = 0; s < c.steps; ++s) {
    const auto& step = steps[static_cast<size_t>(s)];
    std::vector<Comparison> gradients, parameters;
    for (size_t p = 0; p < names.size(); ++p) {
      gradients.push_back({.row = h.row({s, "after backward"}, names[p]),
                           .expected = {recorded(step.average[p], dtype_of(c))},
                           .explanations = [&, p] { return usual_mistakes(step, names, p, c); }});
      parameters.push_back({.row = h.row({s, "after update"}, names[p]),
                            .expected = {recorded(step.parameters_after[p], dtype_of(c))}});
    }
    out +=
        equal("After backward every rank must hold the gradient of one process on the whole batch",
              gradients);
    out += equal("After the update every rank must hold the parameters of one process", parameters);
  }
  return out;
}

}  // namespace

Scenario gradients_match_single_process() {
  return scenario<Training>({
      .name = "gradients.match_single_process",
      .claim = "After backward every rank holds, bit for bit, the gradient of one process on the "
               "whole batch.",
      .exactness = "bit-equal",
      .source = "torch.nn.parallel.DistributedDataParallel; Li et al. 2020; docs/semantics.md",
      .not_covered = "parameters without gradient, gradient accumulation, buffers, rounding",
      .usual_mistake = "a sum where an average belongs, or an average of averages over parts of "
                       "unequal size.",
      .tags = {"core", "gradients"},
      .must_catch = {"average_left_out", "initial_broadcast_left_out", "last_bucket_never_launched",
                     "launched_by_local_readiness"},
      .draws = 350,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {replicas_start_as_rank_zero, gradients_are_the_whole_batchs},
  });
}

}  // namespace lockstep::scenarios
