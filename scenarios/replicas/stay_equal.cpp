// Replicas that train together stay equal: after every step parameters, gradients and the
// optimizer's state have the same bits on every rank, and buffers do whenever a forward has
// synchronised them.
//
// Ranks are built from different seeds and fed different data in parts of unequal size, so only the
// subject makes them equal. Ranks are compared only with each other: gradients.match_single_process
// claims that their values are also right. Adam hides mistakes of scale but not replicas that
// diverge; momentum and decay keep a difference that plain SGD would forget.
#include "harness/verdict/compare.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/network.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::replicas_stay_equal {
namespace {

std::vector<Training> every_small_one() {
  std::vector<Training> all;
  for (const int world : {2, 3})
    for (const auto optimizer : {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam})
      for (const auto values : {Values::exact, Values::real})
        all.push_back(
            {.world = {.size = world},
             .steps = 3,
             .network = {.branches = 2, .inputs = 2, .buffers = {Dtype::float32, Dtype::int64}},
             .batch_log2 = 3,
             .shares = {1, 2},
             .optimizer = optimizer,
             .learning_rate_log2 = -3,
             .options = {.bucket_cap_bytes = 16},
             .values = values,
             .seed = 5});
  return all;
}

rc::Gen<Training> cases() {
  auto drawn =
      with(trainings(), &Training::optimizer,
           rc::gen::element(OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam));
  return with(std::move(drawn), &Training::steps, rc::gen::inRange(1, 5));
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Training& c, const Network& model) {
  const double rate = std::ldexp(1.0, c.learning_rate_log2);
  if (c.optimizer == OptimizerKind::adam)
    return std::make_unique<torch::optim::Adam>(model.parameters(),
                                                torch::optim::AdamOptions(rate));
  auto options = torch::optim::SGDOptions(rate);
  if (c.optimizer == OptimizerKind::momentum) options.momentum(0.5).weight_decay(0.125);
  return std::make_unique<torch::optim::SGD>(model.parameters(), options);
}

void record_state(RankContext& here, const Network& model, torch::optim::Optimizer& optimizer) {
  for (const auto& parameter : model.named_parameters()) {
    const auto found = optimizer.state().find(parameter->unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const auto name = "optimizer's " + parameter.key();
    if (const auto* sgd = dynamic_cast<torch::optim::SGDParamState*>(found->second.get())) {
      if (sgd->momentum_buffer().defined()) here.record(name, sgd->momentum_buffer());
    } else if (const auto* adam =
                   dynamic_cast<torch::optim::AdamParamState*>(found->second.get())) {
      here.record(name + " step", {adam->step()});
      here.record(name + " first moment", adam->exp_avg());
      here.record(name + " second moment", adam->exp_avg_sq());
    }
  }
}

void program(const Training& c, RankContext& here) {
  const auto model = std::make_shared<Network>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  here.enter(0, "wrapped");
  record_parameters(here, *model);
  const auto optimizer = optimizer_of(c, *model);
  for (int step = 0; step < c.steps; ++step) {
    optimizer->zero_grad();
    here.enter(step, "forward");
    model->on_entry = [&] {
      here.enter(step, "in forward");
      record_buffers(here, *model);
    };
    const auto loss = loss_of_part(c, batch_index(c, step, 0), here.rank(), *replica);
    here.enter(step, "backward");
    replica->backward(loss);
    here.enter(step, "after backward");
    record_gradients(here, *model);
    if (c.optimizer != OptimizerKind::none) optimizer->step();
    here.enter(step, "after update");
    record_parameters(here, *model);
    record_state(here, *model, *optimizer);
  }
}

Findings parameters_are_equal(const Training&, const History& h) {
  const char* const rule = "Every rank must hold the same parameters as the others";
  auto out = alike(rule, h.rows("wrapped"));
  out += gradients_are_defined(h.rows("after backward"));
  out += alike("Every rank must hold the same gradients as the others", h.rows("after backward"));
  out += alike("Every rank must hold the same parameters and optimizer state as the others",
               h.rows("after update"));
  return out;
}

Findings buffers_are_equal_where_a_forward_begins(const Training& c, const History& h) {
  if (!c.options.broadcast_buffers || c.network.buffers.empty()) return {};
  auto out = alike("Every rank must begin a forward with the same buffers as the others",
                   h.rows("in forward"));
  for (auto& finding : out)
    finding.cause = "broadcast_buffers=False, or buffers are not broadcast before the forward";
  return out;
}

Findings every_backward_communicates(const Training& c, const History& h) {
  for (int rank = 0; rank < h.size(); ++rank)
    for (int step = 0; step < c.steps; ++step) {
      const Moment at{step, "backward"};
      if (!h.collectives(rank, at).empty()) continue;
      return {{"Every backward must reduce gradients", "no_collective",
               "step " + std::to_string(step) + ", backward",
               "rank " + std::to_string(rank) + " issued no collective in its backward"}};
    }
  return {};
}

}  // namespace

Scenario stay_equal() {
  return scenario<Training>({
      .name = "replicas.stay_equal",
      .claim = "After every step all ranks hold the same parameters, gradients and optimizer "
               "state, bit for bit.",
      .in_full =
          "After every step all ranks hold the same parameters, gradients and optimizer state, "
          "bit for bit, and the same buffers where a forward begins.",
      .exactness = "bit-equal",
      .source = "Li et al. 2020, section 3: equal start and equal averages keep replicas equal",
      .not_covered = "whether what the ranks agree on is right; schedulers, loss scalers",
      .usual_mistake =
          "changing one rank's replica after wrapping: a checkpoint loaded on one rank, "
          "a pruning mask from local data.",
      .tags = {"core", "replicas"},
      .must_catch = {"loaded_after_wrapping_on_one_rank", "pruned_on_one_rank",
                     "wrapped_on_some_calls"},
      .draws = 70,
      .start = {.world = {.size = 2}, .optimizer = OptimizerKind::sgd},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {parameters_are_equal, buffers_are_equal_where_a_forward_begins,
                 every_backward_communicates},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Training>},
                 {"parts of unequal size", 0.4, has_unequal_parts},
                 {"real values", 0.02, has_real_values<Training>},
                 {"buffers that are broadcast", 0.08,
                  [](const Training& c) {
                    return c.options.broadcast_buffers && !c.network.buffers.empty();
                  }},
                 {"an optimizer with a state", 0.25,
                  [](const Training& c) {
                    return c.optimizer == OptimizerKind::momentum ||
                           c.optimizer == OptimizerKind::adam;
                  }}},
      .unused = {"micro_batches", "groups"},
  });
}

}  // namespace lockstep::scenarios::replicas_stay_equal
