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
#include "scenarios/cases/tensors.h"
#include "scenarios/programs/buffers.h"
#include "scenarios/programs/draw/draw.h"
#include "scenarios/programs/draw/idioms.h"
#include "scenarios/programs/draw/labels.h"
#include "scenarios/programs/expected/follow.h"
#include "scenarios/programs/layouts.h"
#include "scenarios/programs/logs.h"
#include "scenarios/programs/run.h"
#include "scenarios/programs/throws.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace lockstep::scenarios::programs_match_single_process {
namespace {

using namespace programs;

// The rows of a model at a moment, beside what they should hold.
class Judge {
 public:
  // `action`: the one after which it is, if any.
  Judge(const History& h, Moment at, const ProgramSpec& c, const FollowedModel& model, int number,
        const Action* action)
      : h_(h), at_(std::move(at)), c_(c), model_(model), number_(number), action_(action) {}

  std::vector<Comparison> gradients() {
    const auto& replicas = model_.replicas();
    for (size_t p = 0; p < replicas.parameter_count(); ++p) {
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(seen(rank, replicas.gradient(rank, p)));
      add(model_.parameters()[p] + ".grad", by_rank, model_.form(p), p);
    }
    return std::exchange(rows_, {});
  }

  std::vector<Comparison> parameters() {
    const auto& replicas = model_.replicas();
    for (size_t p = 0; p < replicas.parameter_count(); ++p) {
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(seen(rank, replicas.parameter(rank, p)));
      add(model_.parameters()[p], by_rank, model_.form(p));
    }
    return std::exchange(rows_, {});
  }

  std::vector<Comparison> buffers() {
    for (size_t b = 0; b < c_.buffers.size(); ++b) {
      const auto& word = c_.buffers[b];
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(
            seen(rank, recorded_buffer(word, buffer_of(word, model_.buffer(rank, b)))));
      add("buffer" + std::to_string(b), by_rank,
          form_of(recorded_buffer(word, buffer_of(word, model_.buffer(0, b)))));
      if (word == BufferKind::special)
        rows_.back().explanations = [] { return Explanations{other_bits_of_equal_numbers}; };
    }
    return std::exchange(rows_, {});
  }

 private:
  // The value as a rank records it: nothing for a step in which it did not act.
  at::Tensor seen(int rank, const at::Tensor& value) const {
    return !action_ || action_->acts[static_cast<size_t>(rank)] ? value : at::Tensor();
  }

  // `parameter`: of which it is the gradient.
  void add(const std::string& name, const std::vector<at::Tensor>& by_rank, const Form& form,
           std::optional<size_t> parameter = {}) {
    for (const auto& [part, expected] : values(name, by_rank, form)) {
      rows_.push_back({.row = h_.row(at_, name_in_records(number_, part)), .expected = expected});
      if (parameter)
        rows_.back().explanations = [this, name, part = part, form, p = *parameter] {
          return explanations(name, part, form, p);
        };
    }
  }

  Explanations explanations(const std::string& name, const std::string& part, const Form& form,
                            size_t parameter) const {
    Explanations out;
    for (const auto& mistake : model_.mistakes()) {
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(seen(rank, mistake.replicas.gradient(rank, parameter)));
      out.push_back(
          recorded_instead({mistake.pattern, mistake.text}, values(name, by_rank, form).at(part)));
    }
    return out;
  }

  // The values of each part that is recorded, by rank.
  static std::map<std::string, std::vector<TensorValue>> values(
      const std::string& name, const std::vector<at::Tensor>& by_rank, const Form& form) {
    std::map<std::string, std::vector<TensorValue>> out;
    for (const auto& value : by_rank)
      for (const auto& part : shown(name, value, form))
        out[part.name].push_back(value_of(part.value));
    return out;
  }

  const History& h_;
  const Moment at_;
  const ProgramSpec& c_;
  const FollowedModel& model_;
  const int number_;
  const Action* const action_;
  std::vector<Comparison> rows_;
};

Findings judged(const ProgramSpec& c, const History& h, int step, const FollowedModel& model,
                int number, const Action* action) {
  if (!model.replicas().why_not_exact().empty())
    throw Refused("no reference at step " + std::to_string(step) + ": " +
                  model.replicas().why_not_exact());
  const Moment at{step, kAfter};
  Judge judge(h, at, c, model, number, action);
  auto out =
      equal("After each step a rank must hold the gradients of the one process", judge.gradients());
  out += equal("After each step a rank must hold the parameters of the one process",
               judge.parameters());
  out += equal("After each step a rank must hold the buffers of the one process", judge.buffers());
  return out;
}

constexpr const char *kLayoutRule =
                         "A gradient keeps its strides, and where it is new, or a view, it has "
                         "its parameter's",
                     *kLogRule =
                         "A replica must log the buckets and the counts that its options, its "
                         "parameters and its passes make";

Findings every_step_is_that_of_one_process(const ProgramSpec& c, const History& h) {
  const auto actions = actions_of(c);
  std::vector<FollowedModel> models;
  std::vector<FollowedLog> logs;
  std::vector<FollowedLayouts> layouts;
  for (int model = 0; model < c.models; ++model) {
    models.emplace_back(c, actions, model);
    logs.emplace_back(c, models.back(), model);
    layouts.emplace_back(c, models.back(), model);
  }
  for (const auto& action : actions) {
    const auto at = static_cast<size_t>(action.model);
    auto& model = models[at];
    model.follow(action);
    logs[at].follow(action, model, h);
    layouts[at].follow(action, model);
    Findings findings;
    if (action.step.op == Op::finish) findings += ranks_are_stopped_alike(h, action, model);
    if (action.is_refused) findings += unnoted_changes_are_refused(h, action, model);
    if (action.number < static_cast<int>(c.steps.size()))
      findings += judged(c, h, action.number, model, action.model, &action);
    if (shows_layouts(action)) findings += equal(kLayoutRule, layouts[at].rows(h, action));
    if (is_logged(action))
      findings += equal(kLogRule, logs[at].rows(h, {action.number, kAfter}, &action));
    if (!findings.empty()) return findings;
  }
  const auto end = static_cast<int>(c.steps.size());
  for (int model = 0; model < c.models; ++model) {
    const auto at = static_cast<size_t>(model);
    auto findings = judged(c, h, end, models[at], model, nullptr);
    findings += equal(kLogRule, logs[at].rows(h, {end, kAfter}, nullptr));
    if (!findings.empty()) return findings;
  }
  return {};
}

}  // namespace

Scenario match_single_process() {
  return scenario<ProgramSpec>({
      .name = "programs.match_single_process",
      .claim =
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
                     "delayed_under_its_first_name_alone"},
      .draws = 160,
      .start = {.world = {.size = 2}, .steps = {{}, {.op = Op::backward}}},
      .every = idioms,
      .cases = program_specs(),
      .program = run,
      .checks = {every_step_is_that_of_one_process},
      .labels = labels(),
  });
}

std::vector<Scenario> all() {
  return {match_single_process()};
}

}  // namespace lockstep::scenarios::programs_match_single_process
