// Where ranks lack gradients, every rank receives an error that names ranks and parameters, keeps
// what it computed, and the next step is averaged as usual; where unused parameters are found, or a
// static graph has learned them, what some ranks use is averaged over all, and what no rank uses
// stays as it is.
//
// A parameter lacks its gradient in three ways: forward does not use it, the loss leaves out its
// output, or a function behind it passes nothing on (which counts as zero, and is no error). What
// .grad held before counts: of local passes, of a pass that failed, of a step that did not clear
// it. So the reference follows each number on each rank from step to step, by docs/semantics.md 2.5
// to 2.7; gradients are whole numbers that stay whole.
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/errors/draw.h"
#include "scenarios/errors/follow.h"
#include "scenarios/errors/judge.h"
#include "scenarios/errors/run.h"

#include <algorithm>

namespace lockstep::scenarios::errors_lacking_gradients {
namespace {

using namespace errors;

// Each way, on one rank, some and all, in the first step and a later one, with every option.
std::vector<Erring> every_small_one() {
  std::vector<Erring> all;
  for (const int world : {2, 3})
    for (const auto& ranks : std::vector<Ranks>{{0}, {1}, {}})
      for (const auto how : {LackKind::unused, LackKind::left_out, LackKind::undefined})
        for (const int step : {0, 1})
          for (const bool finds : {false, true})
            for (const bool is_static : {false, true})
              all.push_back(
                  {.world = {.size = world},
                   .steps = 3,
                   .lacks = {{.how = how, .step = step, .parameter = 1, .ranks = ranks}},
                   .sizes = {1, 2},
                   .options = {.find_unused_parameters = finds, .static_graph = is_static}});
  // A sparse gradient travels last, and carries the flag.
  for (const auto& ranks : std::vector<Ranks>{{0}, {1}, {2}})
    for (const auto how : {LackKind::unused, LackKind::left_out})
      all.push_back({.world = {.size = 3},
                     .steps = 3,
                     .lacks = {{.how = how, .step = 1, .parameter = 1, .ranks = ranks}},
                     .sizes = {1, 2},
                     .embedding = true,
                     .options = {.bucket_cap_bytes = 1}});
  // A gradient that a failed pass left on each rank is averaged by the next pass, which does not
  // use it.
  for (const bool views : {false, true})
    all.push_back({.world = {.size = 2},
                   .steps = 3,
                   .lacks = {{.how = LackKind::left_out, .step = 0, .parameter = 1, .ranks = {1}},
                             {.how = LackKind::unused, .step = 1, .parameter = 0}},
                   .sizes = {1, 2},
                   .clears = Clears::nothing,
                   .options = {.find_unused_parameters = true, .gradient_as_bucket_view = views}});
  return all;
}

bool some_step_fails(const Erring& c) {
  for (const auto& step : follow(c))
    for (const auto& expected : step.errors)
      if (expected.kind != ExpectedError::Kind::nothing) return true;
  return false;
}

bool lacks(const Erring& c, LackKind how) {
  return std::any_of(c.lacks.begin(), c.lacks.end(),
                     [&](const Lack& each) { return each.how == how; });
}

}  // namespace

Scenario lacking_gradients_are_reported() {
  return scenario<Erring>({
      .name = "errors.lacking_gradients_are_reported",
      .former_name = "errors.lacking_gradients_are_told",
      .claim = "Where ranks lack gradients that must be there, every rank receives an error that "
               "says which.",
      .in_full = "Where ranks lack gradients that must be there, every rank receives an error that "
                 "says which, and keeps "
                 "what it computed; otherwise they are averaged, and what no rank uses stays as it "
                 "is. The next step goes well either way.",
      .exactness = "same sentence, bit-equal",
      .source = "find_unused_parameters and static_graph of "
                "torch.nn.parallel.DistributedDataParallel; docs/semantics.md 2.5, 2.6 and 2.7",
      .not_covered = "joins, parameters that learn",
      .usual_mistake = "a branch that only some ranks take, without find_unused_parameters.",
      .tags = {"errors", "unused"},
      .must_catch = {"device_failed_pass_sends_no_entries", "device_flag_not_followed",
                     "first_lacking_parameter_named_alone", "flag_beside_a_hook_not_summed",
                     "lacking_gradient_dropped", "log_has_no_error",
                     "static_graph_unused_is_nobodys", "undefined_in_the_first_pass_is_unused",
                     "unused_view_keeps_the_sum", "use_forgotten_by_a_failed_pass"},
      .draws = 120,
      .start = {.world = {.size = 2}, .lacks = {{}}, .sizes = {1, 1}},
      .every = every_small_one,
      .cases = lacking(),
      .precondition = [](const Erring& c) { return why_shares_round(c.world); },
      .program = run,
      .checks = {every_rank_receives_its_error, ranks_receive_one_error, the_log_has_the_error,
                 gradients_are_as_said},
      .labels = {{"three ranks and more", 0.4, has_three_ranks<Erring>},
                 {"a step that fails", 0.3, some_step_fails},
                 {"sparse gradients", 0.15, [](const Erring& c) { return c.embedding; }},
                 {"a communication hook", 0.08, [](const Erring& c) { return c.hook; }},
                 {"no step that fails", 0.2, [](const Erring& c) { return !some_step_fails(c); }},
                 {"unused", 0.3, [](const Erring& c) { return lacks(c, LackKind::unused); }},
                 {"left out of the loss", 0.2,
                  [](const Erring& c) { return lacks(c, LackKind::left_out); }},
                 {"undefined", 0.2, [](const Erring& c) { return lacks(c, LackKind::undefined); }},
                 {"local passes", 0.2, [](const Erring& c) { return c.local_passes > 0; }},
                 {"gradients that are kept", 0.07,
                  [](const Erring& c) { return c.clears == Clears::nothing && c.steps > 1; }},
                 {"gradients that the caller set", 0.1,
                  [](const Erring& c) { return c.clears == Clears::own; }},
                 {"unused parameters that are found", 0.15,
                  [](const Erring& c) { return c.options.find_unused_parameters; }},
                 {"a static graph", 0.15, [](const Erring& c) { return c.options.static_graph; }}},
      .unused = {"mistake", "attempts", "skips_before", "updates_before"},
  });
}

}  // namespace lockstep::scenarios::errors_lacking_gradients
