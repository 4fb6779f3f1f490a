// After every step of a training programme each rank holds what one process computes that follows
// the same steps.
//
// What goes wrong in data-parallel training often needs a history: a gradient that was kept and
// zeroed in place, two forwards before their backwards, a window of no_sync, an evaluation or a
// caught exception in between, a second model on the group. So a case is a programme: a list of
// steps, which every rank runs and which one process follows. That one keeps for each rank its
// parameters, its gradients (or their absence), and which of them a pass brought since the last
// average; gradients of a rank's batch come from the plain module, in double precision. All numbers
// are whole at first, and multiples of the world size to the power of the averages that they go
// through, so in exact arithmetic nothing rounds; the reference certifies that, and a case without
// a certificate is refused. So every bit is judged after every step.
//
// Steps that mean nothing where they stand, such as a backward without a graph, are left out: each
// list of steps is a programme, and shrinking drops steps.
#include "harness/core/compare.h"
#include "harness/recorder/tensors.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/programs/buffers.h"
#include "scenarios/programs/draw.h"
#include "scenarios/programs/follow.h"
#include "scenarios/programs/idioms.h"
#include "scenarios/programs/labels.h"
#include "scenarios/programs/run.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>

namespace lockstep::scenarios::programs_match_single_process {
namespace {

using namespace programs;

// The rows of a model at a moment, beside what they should hold.
class Judge {
 public:
  Judge(const History& h, Moment at, const Programme& c, const FollowedModel& model, int number)
      : h_(h), at_(std::move(at)), c_(c), model_(model), number_(number) {}

  std::vector<Comparison> gradients(const Action* action) {
    const auto& replicas = model_.replicas();
    for (size_t p = 0; p < replicas.parameter_count(); ++p) {
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(replicas.gradient(rank, p));
      add(model_.parameters()[p] + ".grad", by_rank, model_.form(p),
          action ? explanation(*action) : Diagnosis{}, model_.otherwise(p));
    }
    return std::move(rows_);
  }

  std::vector<Comparison> parameters() {
    const auto& replicas = model_.replicas();
    for (size_t p = 0; p < replicas.parameter_count(); ++p) {
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(replicas.parameter(rank, p));
      add(model_.parameters()[p], by_rank, model_.form(p));
    }
    return std::move(rows_);
  }

  std::vector<Comparison> buffers() {
    for (size_t b = 0; b < c_.buffers.size(); ++b) {
      const auto& word = c_.buffers[b];
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(recorded_buffer(word, buffer_of(word, model_.buffer(rank, b))));
      add("buffer" + std::to_string(b), by_rank, form_of(by_rank.front()));
    }
    return std::move(rows_);
  }

 private:
  static Diagnosis explanation(const Action& action) {
    if (action.step.op == "bare")
      return {"reduced_a_bare_pass",
              "the average, though the pass ran nothing of a forward of the "
              "replica"};
    if (action.is_synchronised)
      return {"not_reduced", "what each rank has for itself: it stayed local"};
    return {"reduced_inside_no_sync", "the average, though its forward was local"};
  }

  void add(const std::string& name, const std::vector<at::Tensor>& by_rank, const Form& form,
           const Diagnosis& diagnosis = {}, const std::vector<at::Tensor>& otherwise = {}) {
    const auto parts = values(name, by_rank, form), others = values(name, otherwise, form);
    for (const auto& [part, expected] : parts) {
      rows_.push_back({.row = h_.row(at_, name_in_records(number_, part)), .expected = expected});
      if (const auto found = others.find(part); found != others.end())
        rows_.back().explanations = [diagnosis, instead = found->second] {
          return Explanations{recorded_instead(diagnosis, instead)};
        };
    }
  }

  // Of each part that is recorded, by rank.
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
  const Programme& c_;
  const FollowedModel& model_;
  const int number_;
  std::vector<Comparison> rows_;
};

Findings judged(const Programme& c, const History& h, int step, const FollowedModel& model,
                int number, const Action* action) {
  if (!model.replicas().why_not_exact().empty())
    throw Refused("no reference at step " + std::to_string(step) + ": " +
                  model.replicas().why_not_exact());
  const Moment at{step, kAfter};
  const auto judge = [&] { return Judge(h, at, c, model, number); };
  auto out = equal("After each step a rank must hold the gradients of the one process",
                   judge().gradients(action));
  out += equal("After each step a rank must hold the parameters of the one process",
               judge().parameters());
  out +=
      equal("After each step a rank must hold the buffers of the one process", judge().buffers());
  return out;
}

Findings every_step_is_that_of_one_process(const Programme& c, const History& h) {
  const auto actions = actions_of(c);
  std::vector<FollowedModel> models;
  for (int model = 0; model < c.models; ++model) models.emplace_back(c, actions, model);
  for (const auto& action : actions) {
    auto& model = models[static_cast<size_t>(action.model)];
    model.follow(action);
    auto findings = judged(c, h, action.number, model, action.model, &action);
    if (!findings.empty()) return findings;
  }
  for (int model = 0; model < c.models; ++model) {
    auto findings = judged(c, h, static_cast<int>(c.steps.size()),
                           models[static_cast<size_t>(model)], model, nullptr);
    if (!findings.empty()) return findings;
  }
  return {};
}

}  // namespace

Scenario match_single_process() {
  return scenario<Programme>({
      .name = "programs.match_single_process",
      .claim =
          "After each step of a training programme, whatever its forwards, backwards, windows, "
          "evaluations, ways of clearing gradients, and changes of the model, its replica and its "
          "ranks, every rank holds the gradients, "
          "parameters and buffers of one process that follows the same steps.",
      .exactness = "bit-equal",
      .source = "docs/semantics.md 0.10, 1.3, 1.4, 2.3 to 2.6",
      .not_covered = "numbers that round, ranks that run different steps, complex "
                     "parameters, joins",
      .usual_mistake = "state of the step before: a flag, a bucket, a map of used parameters.",
      .tags = {"core", "gradients", "accumulation", "unused", "buffers"},
      .must_catch = {"autograd_grad_taken_for_a_backward",
                     "backward_on_another_thread_is_local",
                     "buffers_compared_by_value",
                     "buffers_left_alone_after_regrouping",
                     "evaluation_forgets_waiting_forwards",
                     "gradient_before_the_output_forgotten",
                     "hooks_restored_for_synchronised_forwards_alone",
                     "inference_synchronises_the_next",
                     "infinities_replaced",
                     "init_sync_ignored",
                     "kept_gradients_lost_at_rebuild",
                     "lag_of_buffers_cannot_be_turned_off",
                     "large_gradients_take_another_path",
                     "left_out_output_counts_as_zero",
                     "local_forwards_reach_nothing",
                     "no_sync_of_all_instances",
                     "no_sync_survives_an_exception",
                     "nothing_hooked_without_gradients",
                     "packing_is_recorded",
                     "pass_decided_by_its_first_output",
                     "second_of_a_pair_unseen",
                     "shared_parameter_listed_twice",
                     "sparse_entries_of_rank_zero_alone",
                     "sparse_gradients_summed",
                     "static_graph_drops_kept_gradients",
                     "strided_gradient_written_as_a_row",
                     "tail_of_large_gradients_left_out",
                     "unfrozen_parameters_stay_unhooked",
                     "unused_gradient_counts_as_zero",
                     "unused_view_is_divided",
                     "use_in_no_sync_forgotten",
                     "window_skipped_as_unused"},
      .draws = 160,
      .start = {.world = {.size = 2}, .steps = {{}, {.op = "backward"}}},
      .every = idioms,
      .cases = programmes(),
      .program = run,
      .checks = {every_step_is_that_of_one_process},
      .labels = labels(),
  });
}

std::vector<Scenario> all() {
  return {match_single_process()};
}

}  // namespace lockstep::scenarios::programs_match_single_process
