// An optimizer whose state is divided over the ranks leaves the bits that the whole optimizer
// leaves, and each rank keeps the state of its own parameters alone.
//
// On each rank the whole optimizer of LibTorch runs beside the divided one, on copies of the
// parameters and on the same device: what its kernels round is no part of the claim. It must move
// the parameters, or equal bits would show nothing. Before one of the steps the state is saved on
// one rank, and loaded in a world of the first ranks, which may be all; the others stop there.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/averaging/divided.h"
#include "scenarios/averaging/mistakes.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <cstring>
#include <numeric>

namespace lockstep::scenarios::averaging_sharded_optimizer_is_the_whole {
namespace {

using namespace averaging;

constexpr const char *kReceived = "state received", *kGroupAdded = "group added",
                     *kLoaded = "loaded", *kWholeState = "whole state";

// LibTorch's archives hold addresses, so their sizes differ from run to run; what is sent is of one
// size.
std::string sent(const Divided& c, const Group& group, const std::string& text, int from) {
  constexpr int64_t kMostForNames = 1 << 14, kMostForNumbers = 64;
  int64_t most = kMostForNames;
  for (size_t p = 0; p < parameter_count(c); ++p)
    most += kMostForNames + kMostForNumbers * size_of(c, p);
  std::vector<at::Tensor> bytes{torch::zeros({most}, at::kByte)};
  std::vector<at::Tensor> length{torch::zeros({1}, at::kLong)};
  if (group->getRank() == from) {
    TORCH_CHECK(static_cast<int64_t>(text.size()) <= most, "the state has ", text.size(),
                " bytes, expected ", most, " at most");
    length.front().fill_(static_cast<int64_t>(text.size()));
    std::memcpy(bytes.front().data_ptr(), text.data(), text.size());
  }
  group->broadcast(length, {.rootRank = from})->wait();
  group->broadcast(bytes, {.rootRank = from})->wait();
  return {static_cast<const char*>(bytes.front().const_data_ptr()),
          static_cast<size_t>(length.front().item<int64_t>())};
}

std::string gradient_name(size_t p) {
  return "gradient of w" + std::to_string(p);
}

// As `clears` says, and records what is left.
void clear_gradients(const Divided& c, RankContext& here, int step, const Tensors& parameters,
                     ShardedOptimizer* optimizer) {
  if (c.clears == Clears::replaces) return;
  if (optimizer) optimizer->zero_grad(/*set_to_none=*/c.clears == Clears::drops);
  here.enter(step, "cleared");
  for (size_t p = 0; p < parameters.size(); ++p)
    here.record(gradient_name(p), parts_of(optimizer ? gradient_or_nothing(parameters[p])
                                                     : parameters[p].detach().narrow(0, 0, 0)));
}

// Nothing on a rank that trains no longer.
void step_once(const Divided& c, RankContext& here, int step, const Tensors& parameters,
               ShardedOptimizer* optimizer) {
  const at::AutoGradMode mode(!c.without_grad);
  int64_t calls = 0, loss = 0;
  const auto compute = [&] {
    ++calls;
    set_gradients(c, step, parameters);
    return torch::full({1}, at::GradMode::is_enabled() ? step + 1 : -1, at::kLong);
  };
  if (optimizer && c.with_closure) loss = optimizer->step_with(compute).item<int64_t>();
  if (optimizer && !c.with_closure) {
    compute();
    optimizer->step();
  }
  here.enter(step, "closure");
  if (c.with_closure) here.record("calls, loss", std::vector<int64_t>{calls, loss});
}

// Leaves parameters and gradients as they are, and states that must not outlive a load.
void step_before_load(const Tensors& parameters, ShardedOptimizer& optimizer) {
  Tensors values, gradients;
  for (const auto& each : parameters) {
    values.push_back(each.detach().clone());
    gradients.push_back(each.grad());
    each.mutable_grad() = at::ones_like(each.detach());
  }
  optimizer.step();
  optimizer.save(0);  // which the load brings to an end
  for (size_t p = 0; p < parameters.size(); ++p) {
    parameters[p].detach().copy_(values[p]);
    parameters[p].mutable_grad() = gradients[p];
  }
}

std::vector<int64_t> has_whole_state(ShardedOptimizer* optimizer) {
  return {optimizer && optimizer->has_whole_state().value_or(false) ? 1 : 0};
}

// A rank that has the state of all ranks adds a group of parameters, whose state that lacks.
void add_group(const Divided& c, RankContext& here, int step, const Tensors& parameters,
               ShardedOptimizer* optimizer) {
  const int receiver = c.saving_rank % ranks_in(c, step);
  if (optimizer) optimizer->save(receiver);
  here.enter(step, kReceived);
  here.record(kWholeState, has_whole_state(here.rank() == receiver ? nullptr : optimizer));
  if (optimizer) optimizer->add_group(group_of_parameters(c, parameters, group_count(c) - 1));
  here.enter(step, kGroupAdded);
  here.record(kWholeState, has_whole_state(optimizer));
}

void program(const Divided& c, RankContext& here) {
  const auto make = [&](const ParamGroups& groups) { return made(c.optimizer, groups); };
  const auto divided = parameters_of(c, here.device()), whole = parameters_of(c, here.device());
  // A subject that cannot take all parameters refuses them here, on every rank: later only some
  // ranks may have an optimizer to which the last group is added.
  if (has_late_group(c))
    sharded_optimizer(here, groups_of(c, c.steps, divided), make, here.group());
  auto of_ranks = sharded_optimizer(here, groups_of(c, 0, divided), make, here.group());
  const auto of_one = make(groups_of(c, 0, whole));
  // A subject that cannot refuses the case here, on every rank.
  if (c.clears != Clears::replaces) of_ranks->zero_grad(/*set_to_none=*/true);
  for (int step = 0; step < c.steps; ++step) {
    if (resumes(c) && step == c.resume) {
      const int from = c.saving_rank % c.world.size;
      const auto saved = sent(c, here.group(), of_ranks->save(from), from);
      of_ranks.reset();
      if (here.rank() < ranks_in(c, step)) {
        of_ranks = sharded_optimizer(here, groups_of(c, step - 1, divided), make,
                                     here.group_of(first_ranks(ranks_in(c, step))));
        if (c.has_trained) step_before_load(divided, *of_ranks);
        of_ranks->load(saved);
      }
      here.enter(step, kLoaded);
      here.record(kWholeState, has_whole_state(of_ranks.get()));
    }
    if (has_late_group(c) && step == c.late_group) {
      of_one->add_param_group(group_of_parameters(c, whole, group_count(c) - 1));
      add_group(c, here, step, divided, of_ranks.get());
    }
    if (step > 0 && step == c.slower) {
      auto& options = of_one->param_groups().front().options();
      options.set_lr(options.get_lr() / 2);
      if (of_ranks) of_ranks->set_learning_rate(0, options.get_lr());
    }
    if (resumes(c) && step + 1 == c.resume) of_ranks->save(c.saving_rank % c.world.size);
    if (step > 0) clear_gradients(c, here, step, divided, of_ranks.get());
    set_gradients(c, step, whole);
    here.enter(step, "step");
    step_once(c, here, step, divided, of_ranks.get());
    of_one->step();
    here.enter(step, "after step");
    for (size_t p = 0; p < whole.size(); ++p) {
      here.record("divided w" + std::to_string(p), parts_of(divided[p].detach()));
      here.record("whole w" + std::to_string(p), parts_of(whole[p].detach()));
    }
    here.record("elements of state",
                std::vector<int64_t>{of_ranks ? of_ranks->elements_of_state() : 0});
    here.record(kWholeState, has_whole_state(of_ranks.get()));
  }
}

// The values that ranks held before a step.
Row before_step(const Divided& c, const History& h, int step, const char* what, size_t p) {
  if (step > 0) return h.row({step - 1, "after step"}, what + std::to_string(p));
  const auto row = parts_of(parameters_of(c, c10::kCPU)[p].detach());
  const auto start = recorded(row, row.scalar_type());
  return {{}, "", std::vector(static_cast<size_t>(c.world.size), start)};
}

Findings equals_the_whole(const Divided& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; step < c.steps; ++step) {
    const auto ranks = first_ranks(ranks_in(c, step));
    for (size_t p = 0; p < parameter_count(c); ++p) {
      const auto row = [&](int at, const char* what) {
        return of_group(h.row({at, "after step"}, what + std::to_string(p)), ranks);
      };
      Comparison comparison{.row = row(step, "divided w"),
                            .expected = row(step, "whole w").by_rank};
      comparison.explanations = [&c, &h, step, p, ranks] {
        const auto before = of_group(before_step(c, h, step, "divided w", p), ranks).by_rank;
        return Explanations{not_sent(before), last_steps_value(before),
                            moved_by_another_rate(before, history_of_options(c, step))};
      };
      rows.push_back(std::move(comparison));
    }
  }
  return equal("A divided optimizer must leave on every rank the bits that the whole one leaves",
               rows);
}

Findings the_whole_moves(const Divided& c, const History& h) {
  for (int step = 0; step < c.steps; ++step) {
    const auto now = h.row({step, "after step"}, "whole w0").by_rank.front();
    if (now == before_step(c, h, step, "whole w", 0).by_rank.front())
      throw Refused("the whole optimizer leaves w0 as it is in step " + std::to_string(step));
  }
  return {};
}

Findings each_rank_keeps_its_part(const Divided& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; step < c.steps; ++step) {
    std::vector<TensorValue> expected;
    for (const auto each : elements_kept(c, step)) expected.push_back(int64_values({each}));
    rows.push_back({.row = h.row({step, "after step"}, "elements of state"), .expected = expected});
  }
  return equal("Each rank must keep the state of its own parameters, and no other", rows);
}

Findings a_change_ends_the_whole_state(const Divided& c, const History& h) {
  const auto gives_out = [&](const Moment& at, const std::string& what) -> Findings {
    const auto row = h.row(at, kWholeState);
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
      if (as_integers(row.by_rank[rank]) != std::vector<int64_t>{0})
        return {
            {"A rank must not give out the state of all ranks as it was before a step, a "
             "load or a further group",
             "outdated_state_given_out", "step " + std::to_string(at.step),
             "rank " + std::to_string(rank) +
                 " gives out the state of all ranks as it was "
                 "before " +
                 what + " in step " + std::to_string(at.step)}};
    return {};
  };
  for (int step = 0; step < c.steps; ++step)
    if (auto broken = gives_out({step, "after step"}, "the update"); !broken.empty()) return broken;
  if (resumes(c))
    if (auto broken = gives_out({c.resume, kLoaded}, "the load"); !broken.empty()) return broken;
  if (!has_late_group(c)) return {};
  auto broken = gives_out({c.late_group, kReceived}, "another rank received it");
  broken += gives_out({c.late_group, kGroupAdded}, "a further param group came");
  return broken;
}

Findings gradients_are_cleared(const Divided& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 1; c.clears != Clears::replaces && step < c.steps; ++step)
    for (size_t p = 0; p < parameter_count(c); ++p) {
      const bool is_filled = c.clears == Clears::fills && has_gradient(c, step - 1, p);
      const auto row = parts_of(parameters_of(c, c10::kCPU)[p].detach());
      rows.push_back(
          {.row =
               of_group(h.row({step, "cleared"}, gradient_name(p)), first_ranks(ranks_in(c, step))),
           .expected = {recorded(at::zeros({is_filled ? row.numel() : 0}, row.scalar_type()),
                                 row.scalar_type())}});
    }
  return equal("zero_grad must clear the gradients of all parameters on every rank", rows);
}

Findings a_closure_is_called_once(const Divided& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; c.with_closure && step < c.steps; ++step)
    rows.push_back(
        {.row = of_group(h.row({step, "closure"}, "calls, loss"), first_ranks(ranks_in(c, step))),
         .expected = {int64_values({1, step + 1})}});
  return equal("step must call its closure once, with gradients, and return its loss", rows);
}

std::vector<Divided> every_small_one() {
  using enum OptimizerKind;
  std::vector<Divided> all;
  for (const int world : {2, 3})
    for (const auto optimizer : {sgd, momentum, adam, adamw, amsgrad, adagrad, rmsprop})
      for (const int resume_size : {1, 2, 3})
        all.push_back({.world = {.size = world},
                       .steps = 4,
                       .optimizer = optimizer,
                       .sizes = {3, 5, 2, 4},
                       .groups = 2,
                       .late_group = 1,
                       .slower = 1,
                       .resume = 2,
                       .resume_size = resume_size,
                       .saving_rank = 1,
                       .lacking = 1,
                       .seed = 1});
  return all;
}

rc::Gen<Divided> cases() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  const auto sizes = gen::lists(1, 7, inRange(1, 40));
  using Dtypes = std::vector<Dtype>;
  const auto dtypes =
      element(Dtypes{}, Dtypes{Dtype::float32}, Dtypes{Dtype::float64},
              Dtypes{Dtype::float32, Dtype::float64}, Dtypes{Dtype::float64, Dtype::float32},
              Dtypes{Dtype::complex64}, Dtypes{Dtype::float32, Dtype::complex128});
  return gen::build<Divided>(
      set(&Divided::world, gen::build<WorldSpec>(set(&WorldSpec::size, element(2, 3, 3, 4, 5)))),
      set(&Divided::steps, inRange(3, 7)),
      set(&Divided::optimizer,
          element(OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam,
                  OptimizerKind::adamw, OptimizerKind::amsgrad, OptimizerKind::adagrad,
                  OptimizerKind::rmsprop)),
      set(&Divided::sizes, sizes), set(&Divided::dtypes, dtypes),
      set(&Divided::groups, inRange(1, 4)), set(&Divided::late_group, inRange(0, 4)),
      set(&Divided::slower, inRange(0, 4)), set(&Divided::resume, element(0, 1, 1, 2, 2, 3)),
      set(&Divided::resume_size, inRange(1, 5)), set(&Divided::saving_rank, inRange(0, 6)),
      set(&Divided::has_trained), set(&Divided::lacking, inRange(0, 3)),
      set(&Divided::settings, element(0, 1, 2, 3)),
      set(&Divided::with_closure, rc::gen::weightedElement<bool>({{3, false}, {1, true}})),
      set(&Divided::without_grad),
      set(&Divided::clears,
          element(Clears::replaces, Clears::replaces, Clears::drops, Clears::fills)),
      set(&Divided::seed, inRange<uint64_t>(0, 1 << 20)));
}

bool has_complex_parameters(const Divided& c) {
  for (size_t p = 0; p < parameter_count(c); ++p)
    if (at::isComplexType(dtype_of(c, p))) return true;
  return false;
}

bool resumes_with_state(const Divided& c) {
  return resumes(c) && c.optimizer != OptimizerKind::sgd && ranks_in(c, c.resume) != c.world.size;
}

}  // namespace

Scenario sharded_optimizer_is_the_whole() {
  return scenario<Divided>({
      .name = "averaging.sharded_optimizer_is_the_whole",
      .claim =
          "An optimizer whose state is divided over the ranks leaves the bits of the whole one.",
      .in_full = "An optimizer whose state is divided over the ranks leaves the bits of the whole "
                 "one, in a world of another size after its state was loaded there too, and each "
                 "rank keeps the state of its own parameters alone.",
      .exactness = "bit-equal",
      .source = "torch.distributed.optim.ZeroRedundancyOptimizer; docs/semantics.md 6.3",
      .not_covered = "errors, optimizers that are not LibTorch's, parameters on several devices",
      .usual_mistake = "loading a state by the places of a rank's own parameters: in another "
                       "world they are other parameters.",
      .tags = {"averaging", "optimizers"},
      .must_catch = {"loaded_sharded_optimizer_keeps_its_states", "sharded_closure_called_twice",
                     "sharded_group_given_out_anew", "sharded_last_rank_sends_nothing",
                     "sharded_options_not_loaded", "sharded_state_given_out_after_a_group",
                     "sharded_state_given_out_after_a_step", "sharded_state_kept_whole",
                     "sharded_state_received_by_all", "sharded_state_of_the_saving_rank_alone",
                     "sharded_zero_grad_of_own_parameters", "sharded_state_given_out_after_a_load",
                     "packed_row_is_aligned_to_eight_bytes",
                     "sharded_closure_runs_without_gradients"},
      .draws = 100,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {the_whole_moves, equals_the_whole, each_rank_keeps_its_part,
                 a_change_ends_the_whole_state, gradients_are_cleared, a_closure_is_called_once},
      .labels = {{"three ranks and more", 0.5, has_three_ranks<Divided>},
                 {"a state in a world of another size", 0.2, resumes_with_state},
                 {"a group that comes later", 0.15, has_late_group},
                 {"settings that are not the defaults", 0.4,
                  [](const Divided& c) { return c.settings > 0; }},
                 {"a load into an optimizer that has trained", 0.15,
                  [](const Divided& c) { return c.has_trained && resumes(c); }},
                 {"a state that it has of parameters that had no gradient", 0.02,
                  [](const Divided& c) {
                    if (!c.has_trained || !resumes(c) || numbers_kept(c.optimizer) == 0)
                      return false;
                    const auto kept = elements_kept(c, c.resume - 1);
                    int64_t all = 0;
                    for (size_t p = 0; p < parameter_count(c); ++p)
                      if (p % group_count(c) < groups_in(c, c.resume - 1))
                        all += size_of(c, p) * numbers_kept(c.optimizer);
                    return std::accumulate(kept.begin(), kept.end(), int64_t{0}) < all;
                  }},
                 {"a closure", 0.04, [](const Divided& c) { return c.with_closure; }},
                 {"a closure where gradients are off", 0.02,
                  [](const Divided& c) { return c.with_closure && c.without_grad; }},
                 {"gradients cleared by the optimizer", 0.2,
                  [](const Divided& c) { return c.clears != Clears::replaces; }},
                 {"parameters without a gradient", 0.3,
                  [](const Divided& c) { return c.lacking > 0 && parameter_count(c) > 1; }},
                 {"parameters of two dtypes", 0.15, has_two_dtypes<Divided>},
                 {"complex parameters", 0.1, has_complex_parameters}},
  });
}

}  // namespace lockstep::scenarios::averaging_sharded_optimizer_is_the_whole
