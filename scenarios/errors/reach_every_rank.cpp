// If one rank makes a mistake in its training, every rank receives the error, in the same step and
// soon; the sentence names the rank, the parameter and the operation; and the training continues,
// where it can.
//
// The case draws the mistake, the ranks that make it, the step and the parameter. Some mistakes end
// a pass, and no more: every rank receives it at its end, keeps the gradients that it computed, and
// continues. Others end the training: the rank has its own error, its peers' waits end with it, and
// all begin anew. Peers of a rank that is late wait as long as the timeout of their instance says,
// which passes in virtual time. A rank that leaves out a step silently is named when it ends. The
// sentences, and the gradients held then, follow from docs/semantics.md; errors::follow computes
// it.
//
// A rank that does not receive it waits until the deadline, and the check of the endings shows it:
// ranks leave collectives behind that their peers never issued, so the checks judge endings.
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/errors/draw.h"
#include "scenarios/errors/judge.h"
#include "scenarios/errors/run.h"

namespace lockstep::scenarios::errors_reach_every_rank {
namespace {

using namespace errors;

// Registrations behind an update, and mistakes behind a forward that all ranks skip.
void add_with_something_before(std::vector<Erring>& all) {
  using enum MistakeKind;
  for (const auto& ranks : std::vector<Ranks>{{0}, {1}, {}})
    for (const auto kind : {registered, registered_buffer, registered_module, throw_in_forward,
                            unhooked, frozen, converted, reported}) {
      Erring c{.world = {.size = 2},
               .steps = 3,
               .mistake = {.kind = kind, .step = 1, .ranks = ranks},
               .sizes = {1, 2}};
      (registers(kind) ? c.updates_before : c.skips_before) = true;
      all.push_back(c);
    }
}

std::vector<Erring> every_small_one() {
  using enum MistakeKind;
  std::vector<Erring> all;
  for (const int world : {2, 3})
    for (const auto& ranks : std::vector<Ranks>{{0}, {1}, {}})
      for (const auto kind :
           {throw_in_backward, in_the_loss, dtype, sparse, twice, throw_in_forward, frozen,
            converted, strided, unhooked, registered, buffer_converted, reported, hook_loaded,
            forward_in_backward, forward_twice, skipped, late})
        for (const int step : {0, 1})
          for (const bool finds : {false, true})
            if (kind != hook_loaded || step > 0)
              all.push_back(
                  {.world = {.size = world},
                   .steps = 3,
                   .mistake = {.kind = kind, .step = step, .parameter = 1, .ranks = ranks},
                   .attempts = {Attempt::local_forward, Attempt::forward, Attempt::check,
                                Attempt::bare, Attempt::join, Attempt::update,
                                Attempt::forward_without_gradients},
                   .sizes = {1, 2, 1},
                   .buffer = kind == buffer_converted,
                   .options = {.bucket_cap_bytes = 1, .find_unused_parameters = finds}});
  // The last bucket, which says the number of the step, is that of sparse gradients.
  all.push_back({.world = {.size = 2},
                 .steps = 4,
                 .mistake = {.kind = forward_twice, .step = 2, .ranks = {1}},
                 .sizes = {2, 3},
                 .embedding = true,
                 .options = {.bucket_cap_bytes = 1}});
  add_with_something_before(all);
  return all;
}

std::string why_not_judged(const Erring& c) {
  const auto why = why_nothing_may_come_before(c);
  return why.empty() ? why_shares_round(c.world) : why;
}

bool is(const Erring& c, MistakeKind kind) {
  return c.mistake.kind == kind;
}

}  // namespace

Scenario reach_every_rank() {
  return scenario<Erring>({
      .name = "errors.reach_every_rank",
      .former_name = "errors.are_told_on_every_rank",
      .claim = "If some ranks make a mistake in a step, every rank receives in that step an error "
               "that names them.",
      .in_full = "If some ranks make a mistake in a step, every rank receives the error in that "
                 "step, within "
                 "seconds, by a sentence that names them, the parameter and the operation; what "
                 "gradients hold, and how training continues, is as docs/semantics.md says.",
      .exactness = "same sentence, bit-equal",
      .source = "docs/semantics.md 0.7, 0.18, 0.19, 1.4 and 2.7",
      .not_covered = "ranks that die or stop, mistakes in constructions and joins, two mistakes",
      .usual_mistake = "catching an error on the rank that has it, and continuing alone.",
      .tags = {"errors", "failures"},
      .must_catch = {"buffers_looked_at_without_their_dtype", "cause_repeats_the_end_of_a_peer",
                     "failed_pass_written_back", "first_pass_that_failed_is_learned",
                     "flag_stays_raised", "longer_of_two_timeouts", "other_strides_go_unnoticed",
                     "parameters_unnoted_by_a_new_group", "power_sgd_compares_where_it_is_loaded",
                     "registered_buffers_unseen", "registered_later_unseen",
                     "registered_modules_unseen", "registered_parameters_taken_once",
                     "removed_hooks_go_unnoticed", "report_of_a_skipped_forward_stays",
                     "skipped_forward_reported_for_the_program",
                     "sparse_last_bucket_compares_no_steps", "steps_not_compared",
                     "usage_error_unposted"},
      .draws = 150,
      .start = {.world = {.size = 2},
                .mistake = {.kind = MistakeKind::throw_in_backward, .ranks = {1}}},
      .every = every_small_one,
      .cases = erring(),
      .precondition = why_not_judged,
      .program = run,
      .checks = {every_rank_returns, every_rank_receives_its_error, ranks_receive_one_error,
                 later_calls_fail, the_log_has_the_error, gradients_are_as_said},
      .judges_endings = true,
      .labels = {{"three ranks and more", 0.4, has_three_ranks<Erring>},
                 {"a mistake of all ranks", 0.1, is_of_all_ranks},
                 {"sparse gradients", 0.15, [](const Erring& c) { return c.embedding; }},
                 {"a communication hook", 0.08, [](const Erring& c) { return c.hook; }},
                 {"an exception in backward", 0.06,
                  [](const Erring& c) { return is(c, MistakeKind::throw_in_backward); }},
                 {"a gradient that must not come", 0.15,
                  [](const Erring& c) {
                    return is(c, MistakeKind::in_the_loss) || is(c, MistakeKind::dtype) ||
                           is(c, MistakeKind::sparse) || is(c, MistakeKind::twice);
                  }},
                 {"hooks that are removed", 0.015,
                  [](const Erring& c) { return is(c, MistakeKind::unhooked); }},
                 {"a buffer that is converted", 0.015,
                  [](const Erring& c) { return is(c, MistakeKind::buffer_converted); }},
                 {"a hook that is loaded between passes", 0.015,
                  [](const Erring& c) { return is(c, MistakeKind::hook_loaded); }},
                 {"a forward before it that all ranks skip", 0.01,
                  [](const Erring& c) { return c.skips_before; }},
                 {"a registration after an update", 0.005,
                  [](const Erring& c) { return c.updates_before; }},
                 {"a training that begins anew", 0.2, begins_anew},
                 {"calls after the end", 0.08,
                  [](const Erring& c) {
                    return !c.attempts.empty() && begins_anew(c) && leaves_peers_waiting(c);
                  }},
                 {"ranks in different steps", 0.03,
                  [](const Erring& c) {
                    return is(c, MistakeKind::forward_twice) && !c.buffer && !is_of_all_ranks(c);
                  }},
                 {"a rank that is late", 0.03,
                  [](const Erring& c) { return is(c, MistakeKind::late) && !is_of_all_ranks(c); }},
                 {"ranks out of step", 0.015, goes_out_of_step},
                 {"steps after the mistake", 0.25,
                  [](const Erring& c) { return c.mistake.step % c.steps + 1 < c.steps; }}},
  });
}

}  // namespace lockstep::scenarios::errors_reach_every_rank
