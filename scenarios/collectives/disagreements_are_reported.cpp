// If one rank of a collective call has another argument than its peers, every rank receives one
// sentence that says which argument, who has which value, and the call has done nothing: the same
// call with one argument for all succeeds next.
//
// Or it has one with which no rank could take part, such as a file that lacks what is asked for.
//
// The calls are those of every class that is collective beside the passes of a replica: a program's
// own collectives, averagers of models, sharded optimizers, checkpoints, a replica's registrations
// and joins, and SyncBatchNorm. What ranks compare when a replica is made is another scenario's. A
// subject that compared nothing would mix numbers of different calls, or wait for ever.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/collectives/refused_arguments.h"

#include <torch/torch.h>

namespace lockstep::scenarios::collectives_disagreements_are_reported {
namespace {

using namespace collectives;

constexpr const char *kFirst = "one rank has another", *kAgain = "all have one",
                     *kSentence = "sentence";

int odd_rank(const Disagreeing& c) {
  return c.rank % c.world.size;
}

void program(const Disagreeing& c, RankContext& here) {
  // A subject without it refuses the case on every rank, before any rank could wait for another.
  collective(here, {.kind = CollectiveKind::barrier, .tensor = torch::ones({1}), .parts = {}});
  const auto call = call_of(c, here);
  const auto make = [&](const char* phase, bool has_another) {
    here.enter(0, phase);
    const auto sentence = error_of([&] { call(has_another); });
    here.enter(0, std::string(phase) + ": error");
    record_sentence(here, kSentence, sentence);
  };
  make(kFirst, here.rank() == odd_rank(c));
  make(kAgain, false);
}

std::string sentence_of(const History& h, const char* phase, int rank) {
  return sentence_in(h.row({0, std::string(phase) + ": error"}, kSentence), rank);
}

// Up to the values, where the case does not say them.
std::string expected_sentence(const Disagreeing& c) {
  const auto said = said_of(c);
  if (!said.refusal.empty())
    return "rank " + std::to_string(said.refusing < 0 ? odd_rank(c) : said.refusing) + " of " +
           std::to_string(c.world.size) + " cannot take part: " + said.refusal;
  const auto subject = "ranks disagree on " + said.subject + ": ";
  if (said.by_most.empty()) return subject;
  std::vector<int> most;
  for (int rank = 0; rank < c.world.size; ++rank)
    if (rank != odd_rank(c)) most.push_back(rank);
  std::string by_most = named(most) + (most.size() == 1 ? " has " : " have ") + said.by_most;
  std::string by_one = named({odd_rank(c)}) + " has " + said.by_one;
  if (odd_rank(c) == 0) std::swap(by_most, by_one);
  return subject + by_most + "; " + by_one;
}

Findings every_rank_receives_the_sentence(const Disagreeing& c, const History& h) {
  const auto right = expected_sentence(c);
  const auto first = sentence_of(h, kFirst, 0);
  const bool is_cut = said_of(c).refusal.empty() && said_of(c).by_most.empty();
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto sentence = sentence_of(h, kFirst, rank);
    if (is_cut ? sentence.starts_with(right) && sentence == first : sentence == right) continue;
    return {{"Every rank must receive one sentence that names the argument, and who has which",
             sentence.empty() ? "error_does_not_arrive" : "names_another_difference", kFirst,
             "rank " + std::to_string(rank) + " received " +
                 (sentence.empty() ? "no error" : "'" + sentence + "'") + ", expected '" + right +
                 "'"}};
  }
  return {};
}

Findings the_call_with_one_argument_succeeds(const Disagreeing& c, const History& h) {
  for (int rank = 0; rank < c.world.size; ++rank)
    if (const auto sentence = sentence_of(h, kAgain, rank); !sentence.empty())
      return {{"A call that was refused must have done nothing", "refused_what_it_could_do", kAgain,
               "rank " + std::to_string(rank) + " received '" + sentence + "'"}};
  return {};
}

// An average that counted the refused one would not be due.
Findings the_average_is_not_counted(const Disagreeing& c, const History& h) {
  if (c.argument != Argument::averaged_gradient) return {};
  return alike("A refused average of models must come with the next step",
               {h.row({0, kAgain}, "average")});
}

// A right file comes after the wrong one, and is one of PyTorch's form, which no save wrote.
Findings files_are_loaded_whole_or_not_at_all(const Disagreeing& c, const History& h) {
  const auto before = numbers_held(c, false), after = numbers_held(c, true);
  if (!before || !after) return {};
  return equal("A file must be loaded whole, and one that is refused must change nothing",
               {{.row = h.row({0, kFirst}, kLoaded), .expected = {*before}},
                {.row = h.row({0, kAgain}, kLoaded), .expected = {*after}}});
}

std::string why_nobody_disagrees(const Disagreeing& c) {
  return c.world.size < 2 ? "one rank has no peer whose argument could be another" : "";
}

constexpr int kArguments = static_cast<int>(words::kAll<Argument>.size());

std::vector<Disagreeing> every_argument() {
  std::vector<Disagreeing> all;
  for (int argument = 0; argument < kArguments; ++argument)
    for (const int world : {2, 3})  // in which rank 0 has another one, and rank 2
      all.push_back({.world = {.size = world},
                     .argument = static_cast<Argument>(argument),
                     .rank = world == 2 ? 0 : 2});
  return all;
}

rc::Gen<Disagreeing> cases() {
  using rc::gen::inRange;
  return gen::build<Disagreeing>(
      gen::set(&Disagreeing::world,
               gen::build<WorldSpec>(gen::set(&WorldSpec::size, inRange(2, 6)))),
      gen::set(
          &Disagreeing::argument,
          gen::map(inRange(0, kArguments), [](int which) { return static_cast<Argument>(which); })),
      gen::set(&Disagreeing::rank, inRange(0, 60)));
}

}  // namespace

Scenario disagreements_are_reported() {
  return scenario<Disagreeing>({
      .name = "collectives.disagreements_are_reported",
      .claim = "If one rank gives a collective another argument, every rank receives one sentence "
               "that says so.",
      .in_full = "If one rank of a collective call has another argument than its peers, every rank "
                 "receives one sentence that names the argument and who has which value, or why "
                 "that rank cannot take part with it; the call has done nothing, and succeeds once "
                 "all have one.",
      .exactness = "same sentence",
      .source = "docs/semantics.md 0.7 and 6; train/collectives.h",
      .not_covered = "arguments of several ranks at once, arguments that are wrong on all ranks, "
                     "options of a replica",
      .usual_mistake = "taking an argument from what only one rank knows, such as is_best from its "
                       "own loss.",
      .tags = {"collectives", "errors"},
      .must_catch = {"average_compares_no_gradients",
                     "average_refused_and_counted",
                     "buffer_hooks_place_not_compared",
                     "checkpoint_takes_an_adam_without_averages",
                     "empty_tensors_are_not_compared",
                     "folder_in_the_way_is_found_late",
                     "group_of_layers_not_compared",
                     "is_best_not_compared",
                     "learning_rate_of_the_first_group_compared",
                     "learning_rates_not_compared",
                     "loaded_files_not_compared",
                     "pass_of_local_sgd_not_compared",
                     "pickle_keeps_no_parameters",
                     "position_of_sampler_not_compared",
                     "reduction_not_compared",
                     "replicas_option_not_compared",
                     "replicas_sampler_not_compared",
                     "replicas_state_of_the_first_compared",
                     "scatter_checks_all_parts_but_the_first",
                     "scatter_takes_parts_of_all_ranks"},
      .draws = 60,
      .start = {.world = {.size = 2}},
      .every = every_argument,
      .cases = cases(),
      .precondition = why_nobody_disagrees,
      .program = program,
      .checks = {every_rank_receives_the_sentence, the_call_with_one_argument_succeeds,
                 the_average_is_not_counted, files_are_loaded_whole_or_not_at_all},
      .labels = {{"three ranks and more", 0.45, has_three_ranks<Disagreeing>},
                 {"another argument on rank 0", 0.1,
                  [](const Disagreeing& c) { return odd_rank(c) == 0; }}},
  });
}

}  // namespace lockstep::scenarios::collectives_disagreements_are_reported
