// After every step each rank holds what the rule of averaging says, number by number: who averages
// parameters with whom in which step, and before that whose gradients.
//
// Ranks begin with values of their own, and their gradients differ, so an average that is left out,
// too many, or over other ranks leaves another number. All numbers are whole and multiples of a
// power of the world size, so that no average rounds in any order, which the reference certifies.
// Parameters without a gradient keep what each rank has.
#include "harness/cases/generators.h"
#include "harness/verdict/compare.h"
#include "scenarios/averaging/case.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

namespace lockstep::scenarios::averaging_models_follow_the_rule {
namespace {

using namespace averaging;
using Values = std::vector<std::vector<at::Tensor>>;  // [parameter][rank]

// Misunderstandings of the rule, which explain a failure.
enum class Mistake { none, never_averages, forgets_the_warmup, averages_over_all_ranks };

std::vector<at::Tensor> averaged(const Averaged& c, size_t p,
                                 const std::vector<at::Tensor>& by_rank, int size) {
  const int bits = dtype_of(c, p) == at::kFloat ? 24 : 53;
  if (!reference::averages_without_rounding(by_rank, size, bits))
    throw Refused("an average of groups of " + std::to_string(size) + " rounds");
  return reference::averaged_in_groups(by_rank, size);
}

int size_in(const Averaged& c, int step, Mistake mistake) {
  reference::AveragingRule rule{.levels = {},
                                .warmup_steps = c.warmup_steps,
                                .warmup_is_subtracted = c.rule == Rule::periodic};
  for (const auto& [period, size] : levels_of(c))
    rule.levels.push_back({.period = period, .size = size});
  if (mistake == Mistake::never_averages) return 1;
  if (mistake == Mistake::forgets_the_warmup) rule.warmup_steps = 0;
  const int size = reference::averaging_group_size(rule, step);
  return mistake == Mistake::averages_over_all_ranks && size > 1 ? c.world.size : size;
}

int size_for_gradients(const Averaged& c, int step) {
  if (!averages_gradients(c)) return 1;
  return step < c.start ? c.world.size : std::max(subgroup_size(c), 1);
}

// After every step.
std::vector<Values> expected(const Averaged& c, Mistake mistake) {
  Values now(parameter_count(c));
  for (size_t p = 0; p < now.size(); ++p)
    for (int rank = 0; rank < c.world.size; ++rank) now[p].push_back(start_of(c, rank, p));
  Values moved(parameter_count(c));  // by the last step
  std::vector<Values> out;
  for (int step = 0; step < c.steps; ++step) {
    for (size_t p = 0; p < now.size(); ++p) {
      if (!has_gradient(c, step, p)) continue;
      std::vector<at::Tensor> gradients;
      for (int rank = 0; rank < c.world.size; ++rank)
        gradients.push_back(gradient_of(c, step, rank, p));
      gradients = averaged(c, p, gradients, size_for_gradients(c, step));
      if (c.has_momentum && !moved[p].empty())
        for (size_t rank = 0; rank < gradients.size(); ++rank)
          gradients[rank] = moved[p][rank] + gradients[rank];
      for (size_t rank = 0; rank < gradients.size(); ++rank)
        now[p][rank] = now[p][rank] - gradients[rank];
      moved[p] = gradients;
      now[p] = averaged(c, p, now[p], size_in(c, step, mistake));
    }
    out.push_back(now);
  }
  return out;
}

std::vector<TensorValue> recorded_by_rank(const Averaged& c, const Values& values, size_t p) {
  std::vector<TensorValue> out;
  for (const auto& each : values[p]) out.push_back(recorded(each, dtype_of(c, p)));
  return out;
}

std::optional<Diagnosis> models_summed(const Difference& is) {
  auto diagnosis = sum_not_average("models")(is);
  if (diagnosis) diagnosis->pattern = "models_summed";
  return diagnosis;
}

Findings every_rank_holds_what_the_rule_says(const Averaged& c, const History& h) {
  const auto right = expected(c, Mistake::none);
  std::vector<Comparison> rows;
  for (size_t step = 0; step < right.size(); ++step)
    for (size_t p = 0; p < parameter_count(c); ++p)
      rows.push_back(
          {.row = h.row({static_cast<int>(step), "after step"}, name_of(p)),
           .expected = recorded_by_rank(c, right[step], p),
           .explanations = [&c, step, p] {
             const auto instead = [&](Mistake mistake, const char* pattern, const char* text) {
               return recorded_instead({pattern, text},
                                       recorded_by_rank(c, expected(c, mistake)[step], p));
             };
             return Explanations{
                 models_summed,
                 instead(Mistake::never_averages, "never_averaged",
                         "what each rank has without any average of parameters"),
                 instead(Mistake::forgets_the_warmup, "averaged_in_another_step",
                         "averages from step 0 on, without a warm-up"),
                 instead(Mistake::averages_over_all_ranks, "averaged_with_others",
                         "averages over all ranks where groups of some of them should average")};
           }});
  return equal("After every step each rank must hold what the rule of averaging says", rows);
}

std::vector<Averaged> every_small_one() {
  std::vector<Averaged> all;
  for (const int world : {2, 4})
    for (const auto rule : {Rule::periodic, Rule::hierarchical})
      for (const int64_t period : {1, 2, 3})
        for (const int64_t warmup : {0, 1, 2})
          for (const auto gradients : {Gradients::alone, Gradients::post_local_sgd})
            all.push_back({.world = {.size = world},
                           .steps = 6,
                           .rule = rule,
                           .period = period,
                           .warmup_steps = warmup,
                           .levels = {{.period = 2, .size = 2}},
                           .gradients = gradients,
                           .start = 2,
                           .subgroup_size = 2,
                           .sizes = {2},
                           .seed = 1});
  // In some passes the first bucket stays at home, and one counts all the same.
  all.push_back({.world = {.size = 4},
                 .steps = 6,
                 .period = 7,
                 .gradients = Gradients::post_local_sgd,
                 .start = 3,
                 .subgroup_size = 2,
                 .bucket_cap_bytes = 1,
                 .sizes = {1, 2, 1},
                 .lacking = 2,
                 .seed = 1});
  return all;
}

rc::Gen<Averaged> cases() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  using rc::gen::weightedElement;
  const auto level =
      gen::build<AveragingLevelSpec>(set(&AveragingLevelSpec::period, inRange<int64_t>(1, 4)),
                                     set(&AveragingLevelSpec::size, element(1, 2, 2, 3)));
  const auto levels = gen::lists(1, 2, level);
  const auto sizes = gen::lists(1, 4, inRange(1, 7));
  using Dtypes = std::vector<Dtype>;
  const auto dtypes =
      element(Dtypes{}, Dtypes{Dtype::float32}, Dtypes{Dtype::float32, Dtype::float64},
              Dtypes{Dtype::float64, Dtype::float32});
  const auto drawn = gen::build<Averaged>(
      set(&Averaged::world,
          gen::build<WorldSpec>(set(&WorldSpec::size, element(2, 3, 4, 4, 4, 6, 6)))),
      set(&Averaged::steps, inRange(2, 8)),
      set(&Averaged::rule, element(Rule::periodic, Rule::hierarchical)),
      set(&Averaged::period, inRange<int64_t>(1, 5)),
      set(&Averaged::warmup_steps, element<int64_t>(0, 0, 1, 2, 3)), set(&Averaged::levels, levels),
      set(&Averaged::gradients,
          weightedElement<Gradients>({{2, Gradients::alone}, {3, Gradients::post_local_sgd}})),
      set(&Averaged::start, inRange<int64_t>(0, 5)),
      set(&Averaged::subgroup_size, element(0, 2, 2, 3)),
      set(&Averaged::bucket_cap_bytes, element<int64_t>(0, 1, 40)),
      set(&Averaged::through_optimizer),
      set(&Averaged::given,
          element(AveragedThing::parameters, AveragedThing::module, AveragedThing::optimizer)),
      set(&Averaged::has_momentum), set(&Averaged::restart, element(0, 1, 2, 3)),
      set(&Averaged::sizes, sizes), set(&Averaged::dtypes, dtypes),
      set(&Averaged::lacking, element(0, 1, 1, 2)),
      set(&Averaged::seed, inRange<uint64_t>(0, 1 << 20)));
  return gen::map(drawn, [](Averaged c) {
    if (largest_number(c) > std::ldexp(1.0, 24)) c.dtypes.clear();  // they would round
    return c;
  });
}

bool has_several_levels(const Averaged& c) {
  return levels_of(c).size() > 1;
}

bool uses_subgroups(const Averaged& c) {
  return averages_gradients(c) && subgroup_size(c) > 1 && subgroup_size(c) < c.world.size &&
         c.start < c.steps;
}

}  // namespace

Scenario models_follow_the_rule() {
  return scenario<Averaged>({
      .name = "averaging.models_follow_the_rule",
      .claim = "After every step each rank holds the average of models that the rule names for "
               "this step.",
      .in_full = "After every step each rank holds the average of models over the ranks, and of "
                 "gradients before it, that the rule names for this step, and nothing else.",
      .exactness = "bit-equal",
      .source = "torch.distributed.algorithms.model_averaging, ddp_comm_hooks.post_localSGD_hook; "
                "docs/semantics.md 6.1 and 6.2",
      .not_covered = "how fast a training converges, joins, ranks that differ in what they average",
      .usual_mistake = "averaging before the optimizer's step, or counting the warm-up otherwise "
                       "on one level than on another.",
      .tags = {"averaging", "hooks"},
      .must_catch = {"average_of_models_summed", "averager_takes_the_first_group_alone",
                     "averager_takes_no_submodules", "averages_parameters_without_a_gradient",
                     "averaging_begins_in_the_warmup", "averaging_step_forgotten_by_a_restart",
                     "hierarchy_takes_the_shortest_period", "local_sgd_begins_a_pass_early",
                     "local_sgd_divides_by_the_world", "local_sgd_optimizer_left_unloaded",
                     "models_averaged_in_memory_order", "local_sgd_pass_begins_with_bucket_zero",
                     "hierarchy_counts_from_its_warmup", "models_of_one_dtype_averaged"},
      .draws = 120,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {every_rank_holds_what_the_rule_says},
      .labels = {{"three ranks and more", 0.5, has_three_ranks<Averaged>},
                 {"several levels", 0.15, has_several_levels},
                 {"a warm-up", 0.35, [](const Averaged& c) { return c.warmup_steps > 0; }},
                 {"gradients averaged within subgroups", 0.1, uses_subgroups},
                 {"parameters without a gradient", 0.2,
                  [](const Averaged& c) { return c.lacking > 0 && parameter_count(c) > 1; }},
                 {"an averager that is given a module", 0.04,
                  [](const Averaged& c) {
                    return !c.through_optimizer && c.given == AveragedThing::module;
                  }},
                 {"an averager that is given an optimizer of several param groups", 0.03,
                  [](const Averaged& c) {
                    return !c.through_optimizer && c.given == AveragedThing::optimizer &&
                           parameter_count(c) > 1;
                  }},
                 {"an optimizer with momentum", 0.2,
                  [](const Averaged& c) { return c.has_momentum; }},
                 {"a restart", 0.3,
                  [](const Averaged& c) { return c.restart > 0 && c.restart < c.steps; }},
                 {"parameters of two dtypes", 0.03, has_two_dtypes<Averaged>}},
  });
}

}  // namespace lockstep::scenarios::averaging_models_follow_the_rule
