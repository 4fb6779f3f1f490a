// Scenarios whose cases are said in words and are not written as programs yet.
#include "scenarios/averaging/case.h"
#include "scenarios/averaging/divided.h"
#include "scenarios/buffers/averaged.h"
#include "scenarios/cases/sampling.h"
#include "scenarios/checkpoint/life.h"
#include "scenarios/checkpoint/python_training.h"
#include "scenarios/collectives/arguments.h"
#include "scenarios/collectives/called.h"
#include "scenarios/hooks/case.h"
#include "scenarios/join/windows.h"
#include "scenarios/random/drawing.h"
#include "scenarios/replicas/changed.h"
#include "scenarios/sampler/acts.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/phrases.h"

namespace lockstep::scenarios::standalone {

namespace {

// "[3, 1]".
std::string bracketed(const std::vector<int>& numbers) {
  return list(std::vector<int64_t>(numbers.begin(), numbers.end()));
}

// --- sampler ------------------------------------------------------------------------------------

std::string act_in_words(const Act& act) {
  const auto amount = std::to_string(act.amount);
  switch (act.act) {
    case ActKind::draw:
      return "draws " + amount;
    case ActKind::begin:
      return "begins a pass";
    case ActKind::resize:
      return "takes a dataset of " + amount;
    case ActKind::epoch:
      return "set_epoch(" + amount + ")";
    case ActKind::copy:
      return "goes on with a copy";
    case ActKind::turn:
      return "goes on with the copy that it left";
    case ActKind::save:
      return "saves";
    case ActKind::save_at:
      return "saves at " + amount;
    case ActKind::load:
      return "loads";
    case ActKind::restart:
      return "loads into a new sampler";
    case ActKind::reseed:
      return "loads into a sampler with another option";
  }
  return "";
}

std::string acts_in_words(const Acts& c) {
  std::vector<std::string> parts;
  for (const auto& act : c.acts) parts.push_back(act_in_words(act));
  return "a sampler of " + counted(c.length, "sample") + ": " + in_order(parts);
}

// --- hooks and averages of models ---------------------------------------------------------------

std::string hook_in_words(const hooks::Hooked& c) {
  auto out = "registers the communication hook " + word_of(c.hook.kind) +
             (c.hook.around == HookCompression::none ? "" : " inside " + word_of(c.hook.around)) +
             ", " + steps_in_words(c.steps);
  if (c.reload > 0)
    out +=
        "; before step " + std::to_string(c.reload) + " saves the hook and loads it into a new one";
  if (!c.inputs.empty())
    out += "; in a join, ranks have inputs in so many steps: " + bracketed(c.inputs) +
           ", and sums are divided by " +
           (c.divisor == JoinKind::live ? "who has some" : "the world's size");
  return out;
}

std::string averaging_in_words(const averaging::Averaged& c) {
  auto out = "ranks train on their own and average their models every " + counted(c.period, "step");
  if (!c.levels.empty()) out += ", groups of them more often";
  if (c.warmup_steps > 0) out += ", after " + counted(c.warmup_steps, "step") + " of warm-up";
  if (c.gradients == averaging::Gradients::post_local_sgd)
    out += "; until step " + std::to_string(c.start) + " gradients are averaged";
  if (c.restart > 0)
    out += "; before step " + std::to_string(c.restart) + " all is saved and loaded";
  return out + "; " + steps_in_words(c.steps);
}

std::string sharded_in_words(const averaging::Divided& c) {
  auto out = word_of(c.optimizer) +
             " whose state is divided over the ranks (ZeroRedundancyOptimizer), " +
             steps_in_words(c.steps);
  if (c.resume > 0)
    out += "; before step " + std::to_string(c.resume) + " its state is saved and loaded by " +
           counted(std::min(c.resume_size, c.world.size), "rank");
  if (c.slower > 0)
    out += "; before step " + std::to_string(c.slower) + " the learning rate of a group is halved";
  if (c.lacking > 0) out += "; some parameters have no gradient";
  return out;
}

// --- checkpoints, collectives, generators -------------------------------------------------------

std::string checkpoint_in_words(const checkpoint::Resumed& c) {
  return steps_in_words(c.steps) + " with " + word_of(c.optimizer) + ", saves after step " +
         std::to_string(c.first_save) +
         (c.saves > 1 ? " and, in all, " + counted(c.saves, "time") : std::string()) +
         ", loads the " +
         (c.loads_best ? "best checkpoint"
          : c.age == 0 ? "newest checkpoint"
                       : "checkpoint " + std::to_string(c.age) + " before the newest") +
         " into new objects and goes on" + late_rank_in_words(c.late_rank, c.world.size);
}

std::string python_file_in_words(const checkpoint::PythonFile& c) {
  using enum checkpoint::Damage;
  const std::map<checkpoint::Damage, std::string> mistakes{
      {lacks_an_entry, "lacks a tensor of the model"},
      {has_another_entry, "has a tensor that the model lacks"},
      {has_another_shape, "has a tensor of another shape"},
      {has_another_dtype, "has a tensor of another dtype"},
      {holds_a_class, "holds an argparse.Namespace"},
      {counts_a_fraction, "has half a step"},
      {lacks_a_group, "lacks a param group"},
      {lacks_a_state, "lacks an average of Adam"},
      {has_a_state_of_another_shape, "has a state of another shape"},
      {maximizes, "is of an optimizer that maximizes"},
      {is_of_another_optimizer, "is of another optimizer"},
      {is_cut, "is cut"},
      {is_missing, "is missing"},
      {has_other_values, "has other values"}};
  const auto text =
      "loads a file of Python's torch.save into a model of " +
      counted(std::max<size_t>(c.tensors.size(), 1), "tensor") +
      (c.optimizer == OptimizerKind::none ? ""
                                          : " and its optimizer (" + word_of(c.optimizer) + ")");
  if (c.damage == none) return text;
  return text + "; " +
         (c.rank < 0 ? "it" : "that of rank " + std::to_string(c.rank % c.world.size)) + " " +
         mistakes.at(c.damage);
}

std::string calls_in_words(const collectives::Called& c) {
  std::vector<std::string> parts;
  for (const auto& call : c.calls) {
    const bool reduces =
        call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce;
    parts.push_back(word_of(call.kind) + " of " + std::to_string(call.rows) + " x 2 " +
                    word_of(call.dtype) + (reduces ? " (" + word_of(call.reduction) + ")" : ""));
  }
  return "calls " + (parts.empty() ? "all_reduce" : in_order(parts)) +
         late_rank_in_words(c.late, c.world.size);
}

std::string disagreement_in_words(const collectives::Disagreeing& c) {
  return "a collective call in which rank " + std::to_string(c.rank % c.world.size) +
         " has another " + spoken(c.argument) +
         " than its peers, then the same call with one for all";
}

std::string generators_in_words(const random_generators_are_left_alone::Drawing& c) {
  using enum random_generators_are_left_alone::Act;
  const std::map<random_generators_are_left_alone::Act, std::string> acts{
      {wrap, "wraps the model"},
      {step, "a step"},
      {local, "a step inside no_sync"},
      {mask, "a mask for dropout"},
      {epoch, "an epoch of the sampler"},
      {split, "a random split of the dataset"},
      {sum, "an all_reduce"},
      {check, "a comparison of the replicas"},
      {save, "saves a checkpoint"},
      {load, "loads it"}};
  return in_order(each_in(c.acts, acts)) + "; after each a number from the rank's own generator";
}

// --- replicas and buffers -----------------------------------------------------------------------

std::string changed_in_words(const replicas::Changed& c) {
  using enum replicas::ChangeKind;
  const std::map<replicas::ChangeKind, std::string> how{{another, "to another value"},
                                                        {sign, "in its sign"},
                                                        {last_bit, "in its last bit"},
                                                        {replicas::ChangeKind::nan, "to NaN"}};
  std::vector<std::string> ranks;
  for (const int each : c.ranks) ranks.push_back(std::to_string(each % c.world.size));
  const bool is_one = ranks.size() == 1;
  return (ranks.empty() ? std::string("no rank changes anything")
                        : (is_one ? "rank " : "ranks ") + joined(ranks, ", ") +
                              (is_one ? " changes" : " change") +
                              " one element of the wrapped model " + how.at(c.how)) +
         ", then " +
         (c.by == replicas::CheckedBy::function
              ? std::string("all call check_replicas_equal")
              : "a forward that compares replicas (check_replicas_every=" +
                    std::to_string(c.period) + ")");
}

std::string buffer_hook_in_words(const averaged_buffers::Averaged& c) {
  using enum averaged_buffers::Forward;
  const std::map<averaged_buffers::Forward, std::string> forwards{
      {synced, "one that synchronises"},
      {throws, "one that throws"},
      {no_sync, "one inside no_sync"},
      {no_grad, "one without gradients"},
      {eval, "one in evaluation mode"}};
  const bool is_before = c.place == averaged_buffers::Place::before_forward;
  return std::string("a hook averages buffers ") + (is_before ? "before" : "behind") +
         " the module's forward; forwards: " +
         (c.forwards.empty() ? forwards.at(synced) : in_order(each_in(c.forwards, forwards))) +
         (c.inputs.empty() ? ""
                           : "; in a join, ranks make so many of them: " + bracketed(c.inputs) +
                                 ", and all make one behind it");
}

// --- joins and failures -------------------------------------------------------------------------

std::string leftovers_in_words(const join_leftovers_stay::Windows& c) {
  std::vector<std::string> inputs;
  for (const int each : c.inputs) inputs.push_back(std::to_string(each));
  return "in a join, ranks have " +
         (inputs.empty() ? std::to_string(c.window) : joined(inputs, ", ")) +
         " micro-batches and average after every " + std::to_string(c.window) +
         (c.window == 1   ? "st"
          : c.window == 2 ? "nd"
          : c.window == 3 ? "rd"
                          : "th");
}

std::string survivors_in_words(const Training& c) {
  const std::map<InjectionKind, std::string> words{
      {InjectionKind::delay, "is late"},
      {InjectionKind::slow, "is slow"},
      {InjectionKind::kill, "is killed"},
      {InjectionKind::stop, "is stopped"},
      {InjectionKind::exit, "exits"},
      {InjectionKind::throw_, "throws"},
      {InjectionKind::error, "receives an error from the backend"},
      {InjectionKind::drop, "sends nothing in a collective"},
      {InjectionKind::duplicate, "issues a collective twice"},
      {InjectionKind::corrupt, "finds a bit flipped"},
      {InjectionKind::late, "has its results late"}};
  std::vector<std::string> parts;
  for (const auto& each : c.world.injections)
    parts.push_back("rank " + std::to_string(each.rank) + " " + words.at(each.kind) +
                    (each.collective >= 0 ? " at its collective #" + std::to_string(each.collective)
                                          : " in step " + std::to_string(each.at.step)));
  return "wraps a network and " + steps_in_words(c.steps) + "; " + in_order(parts);
}

std::string canary_in_words(const Sampling& c) {
  return "each of " + counted(c.world.size, "rank") + " draws what rank 0 is to draw";
}

}  // namespace

Families described() {
  return {said("canary.every_rank_is_rank_zero", canary_in_words),
          said("sampler.follows_its_program", acts_in_words),
          said("hooks.average_within_bound", hook_in_words),
          said("hooks.power_sgd_conserves", hook_in_words),
          said("averaging.models_follow_the_rule", averaging_in_words),
          said("averaging.sharded_optimizer_is_the_whole", sharded_in_words),
          said("checkpoint.resume_is_going_on", checkpoint_in_words),
          said("checkpoint.files_of_pytorch_are_read", python_file_in_words),
          said("collectives.give_what_their_names_say", calls_in_words),
          said("collectives.disagreements_are_reported", disagreement_in_words),
          said("random.generators_are_left_alone", generators_in_words),
          said("replicas.differences_are_reported", changed_in_words),
          said("buffers.hook_averages", buffer_hook_in_words),
          said("join.leftovers_stay", leftovers_in_words),
          said("failures.reach_every_survivor", survivors_in_words)};
}

}  // namespace lockstep::scenarios::standalone
