// After every step of a training program each rank holds what one process computes that follows
// the same steps.
//
// A fault in data-parallel training often needs a history: a gradient that was kept and
// zeroed in place, two forwards before their backwards, a window of no_sync, an evaluation or a
// caught exception in between, a second model on the group. So a case is a program: a list of
// steps, which every rank runs and which one process follows. That one keeps for each rank its
// parameters, its gradients (or their absence), and which of them a pass brought since the last
// average; gradients of a rank's batch come from the plain module, in double precision. All numbers
// are whole at first, and multiples of the world size to the power of the averages that they go
// through, so in exact arithmetic nothing rounds; the reference certifies that, and a case without
// a certificate is refused. So every bit is judged after every step.
//
// In a join each rank runs the steps up to the forward for which it has no input left. Its values
// while it shadows its peers are not recorded; when the join has ended it holds the state of the
// last one that had inputs.
//
// Steps that mean nothing where they stand, such as a backward without a graph, are left out: each
// list of steps is a program, and shrinking drops steps.
#include "harness/rank/tensors.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/options.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/programs/draw/draw.h"
#include "scenarios/programs/draw/idioms.h"
#include "scenarios/programs/draw/labels.h"
#include "scenarios/programs/expected/follow.h"
#include "scenarios/programs/layouts.h"
#include "scenarios/programs/logs.h"
#include "scenarios/programs/run.h"
#include "scenarios/programs/state_rows.h"
#include "scenarios/programs/throws.h"

#include <torch/torch.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace lockstep::scenarios::programs_match_single_process {
namespace {

using namespace programs;

constexpr const char *kLayoutRule =
                         "A gradient keeps its strides, and where it is new, or a view, it has "
                         "its parameter's",
                     *kLogRule =
                         "A replica must log the buckets and the counts that its options, its "
                         "parameters and its passes make";

// One model, and which of its parts are still judged: a part that is wrong once is judged from what
// the ranks hold of it, where that is known, or no longer.
struct Judged {
  Judged(const ProgramSpec& c, const std::vector<Action>& actions, int number)
      : number(number),
        model(c, actions, number),
        log(c, model, number),
        layouts(c, model, number) {}

  const int number;
  FollowedModel model;
  FollowedLog log;
  FollowedLayouts layouts;
  bool judges_replicas = true, judges_buffers = true, judges_log = true, judges_layouts = true;
};

// Adds those of another rule or pattern than all before; false if there are none at all.
bool add(Findings& all, Findings more) {
  const bool any = !more.empty();
  for (auto& one : more)
    if (std::none_of(all.begin(), all.end(), [&](const Finding& other) {
          return other.rule == one.rule && other.pattern == one.pattern;
        }))
      all.push_back(std::move(one));
  return any;
}

void judge_state(const ProgramSpec& c, const History& h, int step, Judged& is, const Action* action,
                 Findings& all) {
  const auto& why_not = is.model.replicas().why_not_exact();
  if (!why_not.empty() && all.empty())
    throw Refused("no reference at step " + std::to_string(step) + ": " + why_not);
  is.judges_replicas = is.judges_replicas && why_not.empty();
  StateRows rows(h, {step, kAfter}, c, is.model, is.number, action);
  if (is.judges_replicas) {
    auto wrong = equal("After each step a rank must hold the gradients of the one process",
                       rows.gradients());
    wrong += equal("After each step a rank must hold the parameters of the one process",
                   rows.parameters());
    if (add(all, std::move(wrong))) is.judges_replicas = rows.go_on_from_what_is_held(is.model);
  }
  if (is.judges_buffers)
    is.judges_buffers = !add(
        all,
        equal("After each step a rank must hold the buffers of the one process", rows.buffers()));
}

void judge_action(const ProgramSpec& c, const History& h, const Action& action, Judged& is,
                  Findings& all) {
  if (action.number < static_cast<int>(c.steps.size()))
    judge_state(c, h, action.number, is, &action, all);
  if (is.judges_layouts && shows_layouts(action))
    is.judges_layouts = !add(all, equal(kLayoutRule, is.layouts.rows(h, action)));
  if (is.judges_log && is_logged(action))
    is.judges_log = !add(all, equal(kLogRule, is.log.rows(h, {action.number, kAfter}, &action)));
}

Findings every_step_is_that_of_one_process(const ProgramSpec& c, const History& h) {
  const auto actions = actions_of(c);
  std::deque<Judged> models;
  for (int model = 0; model < c.models; ++model) models.emplace_back(c, actions, model);
  Findings all;
  for (const auto& action : actions) {
    auto& is = models[static_cast<size_t>(action.model)];
    is.model.follow(action);
    is.log.follow(action, is.model, h);
    is.layouts.follow(action, is.model);
    Findings refusals;
    if (action.step.op == Op::finish) refusals += ranks_are_stopped_alike(h, action, is.model);
    if (action.is_refused) refusals += unnoted_changes_are_refused(h, action, is.model);
    const bool goes_on = refusals.empty();
    all += std::move(refusals);
    judge_action(c, h, action, is, all);
    if (!goes_on) return all;
  }
  const auto end = static_cast<int>(c.steps.size());
  for (auto& is : models) {
    judge_state(c, h, end, is, nullptr, all);
    if (is.judges_log) add(all, equal(kLogRule, is.log.rows(h, {end, kAfter}, nullptr)));
  }
  return all;
}

std::string cause_in_the_program(const ProgramSpec& c, std::string_view pattern) {
  const auto has = [&](Op op) {
    return std::ranges::find(c.steps, op, &Step::op) != c.steps.end();
  };
  if (pattern == kMismatched) return cause_of_mismatch(c.options);
  if (pattern != "not_reduced") return "";
  if (has(Op::convert)) return kConvertedAfterWrapping;
  if (has(Op::bare))
    return "a backward of model.module takes the averaging that the last forward prepared, or has "
           "none: run the backward of that forward first";
  if (has(Op::backward_retained))
    return "DDP averages one backward after a forward, and a second one through its graph stays "
           "local: add the losses and call backward() once";
  return "";
}

}  // namespace

Scenario match_single_process() {
  return scenario<ProgramSpec>({
      .name = "programs.match_single_process",
      .claim =
          "After each step of a drawn training program every rank holds what one process holds.",
      .in_full =
          "After each step of a training program, whatever its forwards, backwards, windows, "
          "evaluations, joins of ranks that run out of inputs, ways of clearing gradients, and "
          "changes of the model, its replica and its ranks, every rank holds the gradients, "
          "parameters and buffers of one process that follows the same steps; gradients lie in "
          "memory, and the replica logs its buckets and counts, as they should.",
      .exactness = "bit-equal",
      .source = "docs/semantics.md 0.10, 1.3 to 1.5, 2.2 to 2.6, 5",
      .not_covered = "numbers that round, the sign of zero, ranks that run different steps, "
                     "another process group within a join once a rank is out of inputs, frozen "
                     "layers within one",
      .usual_mistake = "state of the step before: a flag, a bucket, a map of used parameters.",
      .tags = {"core", "gradients", "accumulation", "unused", "buffers", "join"},
      .must_catch = {"autograd_grad_taken_for_a_backward",
                     "backward_on_another_thread_is_local",
                     "bucket_takes_one_more_at_its_cap",
                     "buckets_rebuilt_after_one_pass_alone",
                     "buffers_compared_by_value",
                     "buffers_left_alone_after_regrouping",
                     "complex_numbers_scaled_as_such",
                     "evaluation_forgets_waiting_forwards",
                     "evaluations_are_numbered",
                     "gradient_before_the_output_forgotten",
                     "gradient_penalty_forgotten",
                     "half_of_complex_numbers_packed",
                     "hook_divides_by_the_world",
                     "hook_lost_by_a_new_group",
                     "hooks_restored_for_synchronised_forwards_alone",
                     "ignored_buffers_sent",
                     "inference_synchronises_the_next",
                     "infinities_replaced",
                     "init_sync_ignored",
                     "join_buffers_of_rank_zero",
                     "join_count_kept",
                     "join_divides_by_the_other_count",
                     "join_ends_with_own_buffers",
                     "join_ends_with_rank_zeros_state",
                     "join_leaves_its_lag",
                     "join_shadow_counts_as_use",
                     "join_shadows_into_gradients",
                     "join_stands_in_a_bucket_short",
                     "join_that_throws_ends_alike",
                     "join_thrown_forward_remembered",
                     "kept_gradients_lost_at_rebuild",
                     "lag_of_buffers_cannot_be_turned_off",
                     "large_gradients_take_another_path",
                     "left_out_output_counts_as_zero",
                     "local_forwards_reach_nothing",
                     "local_output_hides_a_penalty",
                     "map_of_used_sums_after_the_waits",
                     "nan_leaves_out_its_gradient",
                     "new_gradient_is_contiguous",
                     "no_sync_guards_do_not_nest",
                     "no_sync_of_all_instances",
                     "no_sync_survives_an_exception",
                     "nothing_hooked_without_gradients",
                     "packing_is_recorded",
                     "pass_decided_by_its_first_output",
                     "second_of_a_pair_unseen",
                     "shared_parameter_listed_twice",
                     "sparse_entries_of_rank_zero_alone",
                     "sparse_gradients_summed",
                     "sparse_values_in_the_default_dtype",
                     "static_graph_drops_kept_gradients",
                     "strided_gradient_written_as_a_row",
                     "subnormal_gradients_dropped",
                     "tail_of_large_gradients_left_out",
                     "threads_leave_a_remainder",
                     "unfrozen_parameters_stay_unhooked",
                     "unfrozen_parameters_unnoticed",
                     "unused_gradient_counts_as_zero",
                     "unused_view_is_divided",
                     "use_in_no_sync_forgotten",
                     "view_kept_multiplied",
                     "waits_before_other_instances",
                     "window_skipped_as_unused",
                     "delayed_under_its_first_name_alone",
                     "state_beyond_a_message_stays_at_a_joins_end",
                     "bucket_zero_is_first_for_a_hook",
                     "join_stays_with_the_group_before",
                     "outputs_of_the_group_before_decide",
                     "flags_have_the_size_of_the_first_world",
                     "gradients_of_no_sync_are_skipped",
                     "rebuilt_by_the_first_arrivals",
                     "functions_on_the_way_taken_for_inputs",
                     "join_counts_forwards_of_the_group_before",
                     "join_without_inputs_ends_with_rank_zero"},
      .draws = 160,
      .start = {.world = {.size = 2}, .steps = {{}, {.op = Op::backward}}},
      .every = idioms,
      .cases = program_specs(),
      .program = run,
      .checks = {every_step_is_that_of_one_process},
      .judges_each_step = true,
      .cause = cause_in_the_program,
      .labels = labels(),
  });
}

}  // namespace lockstep::scenarios::programs_match_single_process
