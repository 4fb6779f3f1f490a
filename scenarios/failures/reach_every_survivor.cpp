// A rank ends in the middle of training, or one of its collectives fails: every other rank soon
// throws an exception that names the operation it was in.
//
// Jobs commonly end because a peer is gone. Ranks that wait for it until a timeout of minutes waste
// the job's machines; ranks that continue train on gradients that were not averaged. So here the
// checks judge how ranks end: the failing rank as planned, the others with a sentence. The case
// says when and how the rank fails.
#include "harness/cases/generators.h"
#include "harness/verdict/trace.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"

#include <algorithm>

namespace lockstep::scenarios::failures_reach_every_survivor {
namespace {

// Every training has these collectives: the comparison of models, the first broadcast, two steps'
// all-reduces, and the rebuilding of the buckets between them.
constexpr int kCollectivesLeast = 6;
constexpr int kExitStatus = 5;
constexpr const char* kBackward = "backward";
const std::vector kKinds{InjectionKind::kill, InjectionKind::exit, InjectionKind::throw_,
                         InjectionKind::error};

// Rank `rank` fails before `collective`, or, at -1, as its last backward pass begins: only then
// does no later operation report a failure of that pass's all-reduce.
Training struck(Training c, InjectionKind kind, int rank, int collective) {
  Injection injection{.kind = kind,
                      .rank = rank % c.world.size,
                      .collective = collective,
                      .amount = kind == InjectionKind::exit ? kExitStatus : 0};
  if (collective < 0) injection.at = {c.steps - 1, kBackward};
  c.world.injections = {injection};
  return c;
}

std::string text_of(const Injection& injection) {
  return injection.collective >= 0
             ? "its collective #" + std::to_string(injection.collective)
             : "step " + std::to_string(injection.at.step) + ", " + injection.at.phase;
}

std::vector<Training> every_small_one() {
  std::vector<Training> all;
  for (const int rank : {0, 1})
    for (const auto kind : kKinds)
      for (int collective = kind == InjectionKind::error ? 0 : -1; collective < kCollectivesLeast;
           ++collective)
        all.push_back(struck({.world = {.size = 2}, .steps = 2}, kind, rank, collective));
  return all;
}

rc::Gen<Training> cases() {
  return gen::apply(
      [](Training c, InjectionKind kind, int rank, int collective) {
        c.steps = std::max(c.steps, 2);
        if (kind == InjectionKind::error)
          collective = std::max(collective, 0);  // which needs a collective
        return struck(std::move(c), kind, rank, collective);
      },
      trainings(), rc::gen::elementOf(kKinds), rc::gen::inRange(0, 4),
      rc::gen::inRange(-1, kCollectivesLeast));
}

void program(const Training& c, RankContext& here) {
  // Among four ranks two may wait for each other and not for the dead one.
  if (c.world.size > 3) refuse_where_the_simulation_waits(here, "the error of a peer");
  here.enter(0, "there");
  record_whose_words(here, "words");
  const auto model = std::make_shared<Network>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  for (int step = 0; step < c.steps; ++step) {
    model->zero_grad(/*set_to_none=*/true);
    here.enter(step, "forward");
    const auto loss = loss_of_part(c, batch_index(c, step, 0), here.rank(), *replica);
    here.enter(step, kBackward);
    replica->backward(loss);
  }
  replica->finish();
}

// True if it names an operation, as our errors or the backend's do, or a peer.
bool names_what_failed(const std::string& why) {
  for (const char* word : {"all-reduce", "allreduce", "broadcast", "exchange", "gather", "connect",
                           "collective #", "rank "})
    if (why.find(word) != std::string::npos) return true;
  return false;
}

const Injection& planned_failure_of(const Training& c) {
  return c.world.injections.front();
}

std::string why_none_is_planned(const Training& c) {
  const auto& all = c.world.injections;
  if (all.size() != 1 || std::ranges::count(kKinds, all.front().kind) == 0)
    return "the case must have one injection: a kill, exit, throw or error";
  const auto& [kind, rank, collective, at, amount] = all.front();
  if (rank >= c.world.size) return "the injection is for a rank that this world does not have";
  if (c.world.size < 2) return "there must be a survivor";
  const bool strikes =
      collective >= 0 ? collective < kCollectivesLeast && c.steps >= 2
                      : kind != InjectionKind::error && at.phase == kBackward && at.step < c.steps;
  return strikes ? "" : "the injection must strike: a collective or a backward that the case has";
}

// Note [Whose words] in scenarios/cases/sentences.h.
std::optional<Diagnosis> wrong_about(const Ending& ending, bool in_our_words) {
  switch (ending.kind) {
    case Ending::Kind::threw:
      if (!in_our_words || names_what_failed(ending.why)) return {};
      return Diagnosis{"error_without_a_name",
                       "its exception names neither an operation nor a peer: " + ending.why};
    case Ending::Kind::returned:
      return Diagnosis{"goes_on_without_a_peer", "it finished its training as if nothing had been"};
    case Ending::Kind::stuck:
      return Diagnosis{"waits_for_the_dead", "it waited until the deadline"};
    default:
      return Diagnosis{"goes_down_with_it",
                       "it ended too, without an exception: " + std::string(name_of(ending.kind)) +
                           " " + ending.why};
  }
}

Findings survivors_throw(const Training& c, const History& h) {
  const auto& planted = planned_failure_of(c);
  const bool in_our_words = is_in_our_words(h.row({0, "there"}, "words"));
  Findings out;
  for (int rank = 0; rank < h.size(); ++rank) {
    if (rank == planted.rank) continue;
    const auto wrong = wrong_about(h.ranks()[static_cast<size_t>(rank)].ending, in_our_words);
    if (!wrong) continue;
    out.push_back({"Every survivor must receive an exception that names the operation",
                   wrong->pattern, "rank " + std::to_string(rank),
                   "rank " + std::to_string(rank) + " received no error about rank " +
                       std::to_string(planted.rank) + ", which was struck by '" +
                       word_of(planted.kind) + "' at " + text_of(planted) + ": " + wrong->text,
                   ladder(h)});
  }
  return out;
}

// The failing rank ends as planned; if its backend fails it throws, as every other rank does.
Findings the_struck_rank_ends_as_planted(const Training& c, const History& h) {
  const auto& planted = planned_failure_of(c);
  const auto& ending = h.ranks().at(static_cast<size_t>(planted.rank)).ending;
  const Ending killed{Ending::Kind::signalled, "SIGKILL"};
  const Ending exited{Ending::Kind::exited, std::to_string(planted.amount)};
  const bool is_planted = planted.kind == InjectionKind::kill ? ending == killed
                          : planted.kind == InjectionKind::exit
                              ? ending == exited
                              : ending.kind == Ending::Kind::threw;
  if (is_planted) return {};
  return {{"The struck rank must end as it was struck", "swallows_its_own_failure",
           "rank " + std::to_string(planted.rank),
           "rank " + std::to_string(planted.rank) + " was struck by '" + word_of(planted.kind) +
               "' and ended otherwise: " + std::string(name_of(ending.kind)) + " " + ending.why}};
}

}  // namespace

Scenario reach_every_survivor() {
  return scenario<Training>({
      .name = "failures.reach_every_survivor",
      .former_name = "failures.survivors_are_told",
      .claim = "When a rank dies, leaves or fails in training, every other rank throws before any "
               "timeout.",
      .in_full =
          "When a rank dies, leaves or fails in training, every other rank throws an error that "
          "names the operation, before any timeout.",
      .exactness = "named error",
      .source = "torch.nn.parallel.DistributedDataParallel over Gloo; docs/semantics.md 0.16",
      .not_covered = "ranks that are stopped or hang, a network that loses messages, recovery",
      .usual_mistake = "catching the communication error of a step and continuing to train.",
      .tags = {"failures"},
      .must_catch = {"failed_reduction_goes_unnoticed"},
      .draws = 30,
      .start = {.world = {.injections = {{.kind = InjectionKind::kill, .rank = 1, .collective = 2}},
                          .size = 2},
                .steps = 2},
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_none_is_planned,
      .program = program,
      .checks = {survivors_throw, the_struck_rank_ends_as_planted},
      .judges_endings = true,
      .labels = {{"three ranks and more", 0.15, has_three_ranks<Training>}},
      .unused = {"micro_batches", "groups", "optimizer", "learning_rate_log2"},
  });
}

}  // namespace lockstep::scenarios::failures_reach_every_survivor
