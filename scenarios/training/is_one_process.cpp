// A training loop on several ranks leaves the parameters that the same loop leaves on one process,
// which takes the ranks' batches as one.
//
// On each rank both run: the loop of the ranks on a wrapped model, and the loop of one process on a
// model of its own, without a collective, on the same device: what an optimizer's kernels round is
// no part of the claim. The two differ only in who computes the gradients. Those are whole numbers
// that no sum rounds, and a parameter's value is part of its next gradient, so a wrong update shows
// in all later steps. Norms, overflows and learning rates are decided by each rank for itself, from
// averaged gradients: a rank that saw others would skip or clip where its peers do not.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/training/held.h"
#include "scenarios/training/timed.h"

#include <torch/torch.h>

namespace lockstep::scenarios::training_is_one_process {
namespace {

using namespace training;

constexpr const char *kWrapped = "wrapped", *kGradients = "gradients", *kUpdated = "updated",
                     *kLeft = "gradients left", *kScale = "scale of the loss";

std::string of_one(size_t p) {
  return "one process " + name_of(p);
}

// Values of the loop of one process, kept until the ranks' loop comes to the same moment.
using Values = std::vector<std::vector<at::Tensor>>;  // [step][parameter]

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const auto& tensor : tensors) out.push_back(tensor.detach().clone());
  return out;
}

std::vector<at::Tensor> gradients_of(const Fed& model) {
  std::vector<at::Tensor> out;
  for (const auto& parameter : model.parameters()) out.push_back(parameter.grad());
  return out;
}

// By parameter: the elements of its gradient that are not zero; kNone where it has none.
constexpr int64_t kNone = -1;
std::vector<int64_t> gradients_left(const Fed& model) {
  std::vector<int64_t> out;
  for (const auto& gradient : gradients_of(model))
    out.push_back(gradient.defined() ? gradient.count_nonzero().item<int64_t>() : kNone);
  return out;
}

struct OneProcess {
  Values gradients, parameters;
};

OneProcess train_on_one_process(const Loop& c, const c10::Device& device) {
  OneProcess out;
  Fed model(c, 0);
  model.to(device);
  train(c, model,
        [&](int step, int m, double scale) {
          (model.forward(whole_batch_of(c, step, m).to(device)) * scale).backward();
        },
        {.before_update = [&](int) { out.gradients.push_back(copies(gradients_of(model))); },
         .after_update = [&](int) { out.parameters.push_back(copies(model.parameters())); }});
  return out;
}

void record(RankContext& here, const std::vector<at::Tensor>& ranks,
            const std::vector<at::Tensor>& one) {
  for (size_t p = 0; p < ranks.size(); ++p) {
    here.record(name_of(p), ranks[p].detach());
    here.record(of_one(p), one[p]);
  }
}

void program(const Loop& c, RankContext& here) {
  const auto one = train_on_one_process(c, here.device());
  const auto model = std::make_shared<Fed>(c, here.rank());
  const auto replica = wrap(here, model,
                            {.bucket_cap_bytes = c.bucket_cap_bytes,
                             .gradient_as_bucket_view = c.gradient_as_bucket_view,
                             .further = {.timed_passes = c.timed_passes}});
  here.enter(0, kWrapped);
  for (const auto& each : model->named_parameters()) here.record(each.key(), each.value().detach());
  double scale_now = 1;
  train(c, *model,
        [&](int step, int m, double scale) {
          scale_now = scale;
          if (m == 0 && begins_anew(c) && step == c.begins_anew) replica->begin_anew();
          const auto take = [&] {
            here.enter(step, "micro-batch " + std::to_string(m));
            replica->backward(replica->forward(batch_of(c, step, m, here.rank())) * scale);
          };
          if (m + 1 < c.micro_batches)
            replica->no_sync(take);
          else
            take();
        },
        {.before_update =
             [&](int step) {
               here.enter(step, kGradients);
               here.record(kScale, torch::full({1}, scale_now, at::kDouble));
               record(here, gradients_of(*model), one.gradients[static_cast<size_t>(step)]);
             },
         .after_update =
             [&](int step) {
               here.enter(step, kUpdated);
               record(here, model->parameters(), one.parameters[static_cast<size_t>(step)]);
               if (c.steps_in_backward) here.record(kLeft, gradients_left(*model));
             },
         .give_optimizer =
             [&](std::shared_ptr<torch::optim::Optimizer> optimizer) {
               replica->step_in_backward(std::move(optimizer));
             }});
  record_timed_passes(c, here, *replica);
}

Findings a_step_in_backward_leaves_no_gradient(const Loop& c, const History& h) {
  constexpr const char* kRule =
      "A step in backward must leave no parameter a gradient, not even of zeros";
  for (int step = 0; c.steps_in_backward && step < c.steps; ++step) {
    const auto left = h.row({step, kUpdated}, kLeft);
    for (size_t rank = 0; rank < left.by_rank.size(); ++rank) {
      const auto by_parameter = as_integers(left.by_rank[rank]);
      for (size_t p = 0; p < by_parameter.size(); ++p) {
        if (by_parameter[p] == kNone) continue;
        const bool is_zero = by_parameter[p] == 0;
        return {{kRule,
                 is_zero ? "left_zeros" : "left_gradients",
                 {{step, kUpdated}, name_of(p)},
                 name_of(p) + ": its gradient is still there after the step, on rank " +
                     std::to_string(rank) +
                     (is_zero ? ", filled with zeros" : ", as the backward left it")}};
      }
    }
  }
  return {};
}

// The ranks' values before a step.
std::vector<TensorValue> held_before(const History& h, int step, size_t p) {
  const auto at = step == 0 ? Moment{0, kWrapped} : Moment{step - 1, kUpdated};
  return h.row(at, name_of(p)).by_rank;
}

Findings ranks_start_as_rank_zero(const Loop& c, const History& h) {
  std::vector<Comparison> rows;
  for (size_t p = 0; p < parameter_count(c); ++p) {
    std::vector<TensorValue> own;
    for (int rank = 0; rank < c.world.size; ++rank)
      own.push_back(recorded(start_of(c, rank, p), dtype_of(c, p)));
    rows.push_back({.row = h.row({0, kWrapped}, name_of(p)), .expected = {own.front()}});
    rows.back().explanations = [own] { return initial_states(own); };
  }
  return equal("Every replica must start from rank 0's parameters", rows);
}

// The average of the gradients that ranks compute from what each held before the step.
Findings averages_are_right(const Loop& c, const History& h, int step) {
  std::vector<double> scales;
  for (const auto& scale : h.row({step, kGradients}, kScale).by_rank)
    scales.push_back(as_doubles(scale).front());
  std::vector<Comparison> rows;
  for (size_t p = 0; p < parameter_count(c); ++p)
    rows.push_back({.row = h.row({step, kGradients}, name_of(p)),
                    .expected = {average_from(c, step, p, held_before(h, step, p), scales)},
                    .explanations = [] { return Explanations{sum_not_average("gradients")}; }});
  return equal("In every step each rank must hold the gradients of one process", rows);
}

Findings step_is_that_of_one_process(const Loop& c, const History& h, int step) {
  std::vector<Comparison> gradients, parameters;
  const auto compared = [&](const Moment& at, size_t p) {
    return Comparison{.row = h.row(at, name_of(p)), .expected = h.row(at, of_one(p)).by_rank};
  };
  for (size_t p = 0; p < parameter_count(c); ++p) {
    if (!c.steps_in_backward) {
      gradients.push_back(compared({step, kGradients}, p));
      gradients.back().explanations = [] { return Explanations{sum_not_average("gradients")}; };
    }
    parameters.push_back(compared({step, kUpdated}, p));
    parameters.back().explanations = [&c, &h, step, p] {
      Explanations out;
      if (step > 0)
        out.push_back(last_steps_value(h.row({step - 1, kUpdated}, of_one(p)).by_rank));
      else if (c.steps_in_backward && c.micro_batches > 1)
        out.push_back(stepped_inside_no_sync(c, p));
      return out;
    };
  }
  auto out = equal("In every step each rank must hold the gradients of one process", gradients);
  if (out.empty())
    out = equal("After every update each rank must hold the parameters of one process", parameters);
  return out;
}

// Up to the first step that is not that of one process; from there on averages alone, of what the
// ranks then have.
Findings steps_are_those_of_one_process(const Loop& c, const History& h) {
  auto out = ranks_start_as_rank_zero(c, h);
  for (int step = 0; step < c.steps; ++step) {
    if (out.empty())
      out += step_is_that_of_one_process(c, h, step);
    else if (!c.steps_in_backward)
      out += averages_are_right(c, h, step);
  }
  return out;
}

// A step that should move no parameter: its gradients overflowed.
Findings one_process_trains(const Loop& c, const History& h) {
  for (int step = 0; step < c.steps; ++step) {
    bool moves = overflows(c, step);
    for (size_t p = 0; p < parameter_count(c); ++p) {
      const auto now = h.row({step, kUpdated}, of_one(p)).by_rank.front();
      const auto before = step > 0 ? h.row({step - 1, kUpdated}, of_one(p)).by_rank.front()
                                   : recorded(start_of(c, 0, p), dtype_of(c, p));
      moves = moves || now != before;
    }
    if (!moves)
      throw Refused("one process leaves all parameters as they are in step " +
                    std::to_string(step));
  }
  return {};
}

std::vector<Loop> every_small_one() {
  using enum OptimizerKind;
  std::vector<Loop> all;
  for (const auto optimizer : {sgd, momentum, adam, adamw, amsgrad, adagrad, rmsprop})
    for (const auto clip : {Clip::none, Clip::norm, Clip::value})
      for (const auto schedule :
           {RateSchedule::constant, RateSchedule::steps, RateSchedule::warmup})
        all.push_back({.world = {.size = 2},
                       .steps = 4,
                       .optimizer = optimizer,
                       .schedule = schedule,
                       .clip = clip,
                       .scales_loss = true,
                       .overflow = {.step = 1, .rank = 1},
                       .sizes = {3, 2},
                       .seed = 1});
  return all;
}

rc::Gen<Loop> cases() {
  using gen::set;
  using rc::gen::arbitrary;
  using rc::gen::element;
  using rc::gen::inRange;
  using rc::gen::weightedElement;
  using Dtypes = std::vector<Dtype>;
  const auto dtypes =
      element(Dtypes{}, Dtypes{Dtype::float64}, Dtypes{Dtype::float32, Dtype::float64});
  const auto overflow = gen::build<Overflow>(
      set(&Overflow::step, weightedElement<int>({{1, 0}, {3, 1}, {2, 2}, {1, 3}})),
      set(&Overflow::rank, inRange(0, 5)));
  return gen::build<Loop>(
      set(&Loop::world, gen::build<WorldSpec>(set(&WorldSpec::size, element(2, 3, 3, 4, 5)))),
      set(&Loop::steps, rc::gen::weightedOneOf<int>({{4, inRange(3, 7)}, {1, inRange(11, 17)}})),
      set(&Loop::micro_batches, weightedElement<int>({{4, 1}, {2, 2}, {1, 3}})),
      set(&Loop::optimizer,
          element(OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam,
                  OptimizerKind::adamw, OptimizerKind::amsgrad, OptimizerKind::adagrad,
                  OptimizerKind::rmsprop)),
      set(&Loop::groups, inRange(1, 4)), set(&Loop::settings, inRange(0, 4)),
      set(&Loop::schedule,
          weightedElement<RateSchedule>(
              {{1, RateSchedule::constant}, {2, RateSchedule::steps}, {2, RateSchedule::warmup}})),
      set(&Loop::clip, weightedElement<Clip>({{1, Clip::none}, {2, Clip::norm}, {2, Clip::value}})),
      set(&Loop::scales_loss, weightedElement<bool>({{3, true}, {1, false}})),
      set(&Loop::overflow, overflow), set(&Loop::zero_in_place, arbitrary<bool>()),
      set(&Loop::steps_in_backward, weightedElement<bool>({{2, false}, {1, true}})),
      set(&Loop::sizes, gen::lists(1, 5, inRange(1, 30))), set(&Loop::dtypes, dtypes),
      set(&Loop::bucket_cap_bytes, element<int64_t>(0, 1, 64)),
      set(&Loop::gradient_as_bucket_view, arbitrary<bool>()),
      set(&Loop::timed_passes, element(0, 0, 1, 2, 3, 5)),
      set(&Loop::begins_anew, weightedElement<int>({{4, 0}, {1, 1}, {1, 2}})),
      set(&Loop::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace

Scenario is_one_process() {
  return scenario<Loop>({
      .name = "training.is_one_process",
      .claim = "A training loop leaves on every rank the bits of the same loop on one process.",
      .in_full =
          "A training loop with any of LibTorch's optimizers, a schedule, clipped gradients "
          "and a scaled loss leaves on every rank, step by step, the bits of the same loop on "
          "one process with the ranks' batches as one, also where the replica begins anew; its log "
          "has timed as many passes as were "
          "asked for.",
      .exactness = "bit-equal",
      .source = "torch.nn.parallel.DistributedDataParallel; torch.amp.GradScaler; "
                "docs/semantics.md 2",
      .not_covered = "optimizers that are not LibTorch's, batches of unequal size, gradients that "
                     "round",
      .usual_mistake = "clipping or testing for overflow before the backward that averages: each "
                       "rank then decides by its own gradients.",
      .tags = {"core", "training", "optimizers"},
      .must_catch = {"every_hundredth_pass_is_timed_whatever_is_said", "first_bucket_is_not_timed",
                     "infinite_gradients_average_to_numbers", "step_in_backward_fills_with_zeros",
                     "step_in_backward_clears_one_group", "step_in_backward_after_local_passes_too",
                     "step_in_backward_forgotten_by_a_new_beginning",
                     "step_in_backward_keeps_gradients"},
      .draws = 120,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = [](const Loop& c) { return why_shares_round(c.world); },
      .program = program,
      .checks = {one_process_trains, a_step_in_backward_leaves_no_gradient,
                 steps_are_those_of_one_process, passes_are_timed_as_often_as_said,
                 buckets_leave_as_they_fill},
      .judges_each_step = true,
      .labels = {{"three ranks and more", 0.5, has_three_ranks<Loop>},
                 {"a step whose gradients overflow", 0.2,
                  [](const Loop& c) { return overflows(c); }},
                 {"clipped gradients", 0.3, clips},
                 {"an optimizer that steps in backward", 0.15,
                  [](const Loop& c) { return c.steps_in_backward; }},
                 {"a replica that begins anew and steps in backward", 0.04,
                  [](const Loop& c) { return begins_anew(c) && c.steps_in_backward; }},
                 {"a bucket that leaves while the backward goes on", 0.1, fills_a_bucket_early},
                 {"passes that are not timed", 0.05,
                  [](const Loop& c) { return timed_passes(c) < c.steps; }},
                 {"a schedule", 0.4,
                  [](const Loop& c) { return c.schedule != RateSchedule::constant; }},
                 {"a window of no_sync", 0.25, [](const Loop& c) { return c.micro_batches > 1; }},
                 {"several param groups", 0.25, [](const Loop& c) { return group_count(c) > 1; }},
                 {"settings that are not the defaults", 0.5,
                  [](const Loop& c) { return c.settings > 0; }},
                 {"an optimizer with state", 0.5,
                  [](const Loop& c) { return c.optimizer != OptimizerKind::sgd; }}},
  });
}

}  // namespace lockstep::scenarios::training_is_one_process
