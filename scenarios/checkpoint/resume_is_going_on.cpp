// A training that was saved, destroyed and loaded continues with the bits of the one that never
// stopped.
//
// Each rank trains to the end, saving on the way, and then once more from a checkpoint, with all
// objects made anew from other seeds: model, optimizer, sampler and the rank's generator. Whatever
// the file lacks, or is loaded into the wrong rank, shows in a later step: a parameter's next
// gradient holds its value, the samples drawn and a mask of the rank's own, buffers count, and
// optimizers keep sums and counts, in several groups of settings that the new objects lack. Counts
// may be so large that a narrower number would not hold them. The numbers are real, and both
// trainings compute alike, so bits are compared.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/checkpoint/files.h"
#include "scenarios/checkpoint/life.h"

#include <torch/torch.h>

namespace lockstep::scenarios::checkpoint_resume_is_going_on {
namespace {

using namespace checkpoint;

constexpr const char *kStraight = "never stopped", *kResumed = "resumed";

void program(const Resumed& c, RankContext& here) {
  const auto& files = checkpoints(here);
  const auto path = path_of(here);
  {
    Life life(c, here, Objects::of_the_case);
    life.wrap();
    for (int made = 1; made <= c.steps; ++made) {
      life.step(kStraight);
      if (made < first_save(c) || made > last_save(c)) continue;
      life.prefetch();
      here.enter(made, "save");
      files.save(path, here.group(), life.state(),
                 {.keep_last = kept(c), .is_best = made == best_save(c)}, {});
    }
    record_files(c, here, path);
  }
  Life life(c, here, Objects::others);
  if (c.wraps_first) life.wrap();
  here.enter(0, "step before the load");
  if (has_trained(c)) life.step_before_load();
  here.enter(steps_loaded(c), "load");
  const auto which = c.loads_best ? ".best" : age(c) > 0 ? "." + std::to_string(age(c)) : "";
  files.load(path + which, here.group(), life.state(), {});
  life.begin();
  if (!c.wraps_first) life.wrap();
  for (int made = steps_loaded(c); made < c.steps; ++made) life.step(kResumed);
  if (late_rank(c) >= 0) wait_for_the_late_rank(c, here, path);
}

// Rank 0's buffers are saved: without broadcasts every other rank has lost its own.
std::vector<TensorValue> expected(const Resumed& c, const History& h, int step,
                                  const std::string& name) {
  auto straight = h.row({step, kStraight}, name).by_rank;
  if (name != kSeen || c.broadcast_buffers) return straight;
  const auto sum_at = [&](int at, size_t rank) {
    return as_doubles(h.row({at, kStraight}, kSeen).by_rank[rank]).front();
  };
  const int loaded = steps_loaded(c);
  for (size_t rank = 0; rank < straight.size(); ++rank) {
    const double since = sum_at(step, rank) - sum_at(loaded, rank);
    straight[rank] =
        recorded(torch::full({1}, sum_at(loaded, 0) + since, at::kDouble), at::kDouble);
  }
  return straight;
}

// The place in the dataset and what is drawn there, which a sampler decides.
bool is_of_the_sampler(const std::string& name) {
  return name == kProgress || name == kSamples;
}

// The records of a training whose loaded sampler draws the samples of its epoch from the first on,
// as it drew them before it was saved.
Explanation epoch_begun_anew(const Resumed& c, const History& h, int step,
                             const std::string& name) {
  const auto progress = [&](int at) {
    return as_integers(h.row({at, kStraight}, kProgress).by_rank.front());
  };
  int first = steps_loaded(c);
  while (first > 1 && progress(first - 1).front() == progress(first).front()) --first;
  const int again = first + step - steps_loaded(c) - 1;
  const auto instead =
      name == kSamples
          ? h.row({again, kStraight}, name).by_rank
          : std::vector{int64_values({progress(again).front(), progress(step).back()})};
  return recorded_instead(
      {"epoch_begun_anew", "what follows where the loaded sampler begins epoch " +
                               std::to_string(progress(first).front()) +
                               " from its first sample, and draws again what was drawn from step " +
                               std::to_string(first) + " to step " +
                               std::to_string(steps_loaded(c))},
      instead);
}

Findings resumed_is_straight(const Resumed& c, const History& h) {
  const auto as_straight = [&](bool of_the_sampler) {
    std::vector<Comparison> rows;
    for (int step = steps_loaded(c) + 1; step <= c.steps; ++step)
      for (const auto& name : recorded_names(c))
        if (is_of_the_sampler(name) == of_the_sampler)
          rows.push_back({.row = h.row({step, kResumed}, name),
                          .expected = expected(c, h, step, name),
                          .explanations = [&c, &h, step, name] {
                            Explanations out{recorded_instead(
                                {"began_anew", "what it had in its first step: it began anew"},
                                h.row({1, kStraight}, name).by_rank)};
                            if (is_of_the_sampler(name))
                              out.push_back(epoch_begun_anew(c, h, step, name));
                            return out;
                          }});
    return equal(of_the_sampler
                     ? "A training that was loaded must draw the samples that come next"
                     : "A training that was loaded must go on as the one that never stopped",
                 rows);
  };
  auto out = as_straight(true);
  out += as_straight(false);
  return out;
}

// Otherwise a file of one rank's numbers would do for all.
Findings ranks_have_masks_of_their_own(const Resumed& c, const History& h) {
  for (int step = 1; step <= c.steps; ++step) {
    const auto& masks = h.row({step, kStraight}, kMask).by_rank;
    for (size_t rank = 1; rank < masks.size(); ++rank)
      if (masks[rank] == masks[0])
        throw Refused("ranks 0 and " + std::to_string(rank) + " drew the same mask");
  }
  return {};
}

std::vector<Resumed> every_small_one() {
  using enum OptimizerKind;
  std::vector<Resumed> all;
  for (const auto optimizer : {sgd, momentum, adam, adamw, amsgrad})
    for (const bool wraps_first : {false, true})
      for (const int loads : {0, 1, 2})
        all.push_back({.world = {.size = 2},
                       .steps = 4,
                       .saves = 2,
                       .age = loads,
                       .loads_best = loads == 2,
                       .optimizer = optimizer,
                       .halves_rate = true,
                       .wraps_first = wraps_first,
                       .shuffle = true,
                       .length = 7,
                       .batch_size = 2,
                       .sizes = {3, 1},
                       .seed = 1});
  for (const bool late_to_load : {false, true})
    all.push_back({.world = {.size = 2}, .late_rank = 1, .late_to_load = late_to_load, .seed = 1});
  return all;
}

rc::Gen<Resumed> cases() {
  using gen::set;
  using rc::gen::arbitrary;
  using rc::gen::element;
  using rc::gen::inRange;
  using Dtypes = std::vector<Dtype>;
  const auto dtypes =
      element(Dtypes{}, Dtypes{Dtype::float64}, Dtypes{Dtype::float32, Dtype::float64});
  return gen::build<Resumed>(
      set(&Resumed::world, gen::build<WorldSpec>(set(&WorldSpec::size, element(2, 3, 3, 4)))),
      set(&Resumed::steps, inRange(3, 8)), set(&Resumed::first_save, inRange(1, 4)),
      set(&Resumed::saves, inRange(2, 6)), set(&Resumed::age, inRange(0, 4)),
      set(&Resumed::best, inRange(0, 3)),
      set(&Resumed::loads_best, rc::gen::weightedElement<bool>({{2, false}, {1, true}})),
      set(&Resumed::optimizer,
          rc::gen::weightedElement<OptimizerKind>({{1, OptimizerKind::sgd},
                                                   {2, OptimizerKind::momentum},
                                                   {2, OptimizerKind::adam},
                                                   {2, OptimizerKind::adamw},
                                                   {2, OptimizerKind::amsgrad}})),
      set(&Resumed::groups, inRange(1, 4)), set(&Resumed::settings, inRange(0, 4)),
      set(&Resumed::late, element(0, 0, 1, 2, 3)), set(&Resumed::drops_older, arbitrary<bool>()),
      set(&Resumed::count_log2, element(0, 0, 0, 24, 24, 31, 32, 52, 53)),
      set(&Resumed::prefetched, element(0, 0, 1, 3)),
      set(&Resumed::two_generators, arbitrary<bool>()),
      set(&Resumed::late_rank,
          rc::gen::weightedOneOf<int>({{5, rc::gen::just(-1)}, {1, inRange(0, 4)}})),
      set(&Resumed::late_to_load, arbitrary<bool>()), set(&Resumed::halves_rate, arbitrary<bool>()),
      set(&Resumed::wraps_first, arbitrary<bool>()), set(&Resumed::has_trained, arbitrary<bool>()),
      set(&Resumed::broadcast_buffers, arbitrary<bool>()),
      set(&Resumed::shuffle, arbitrary<bool>()), set(&Resumed::length, inRange<int64_t>(4, 24)),
      set(&Resumed::batch_size, inRange<int64_t>(1, 4)),
      set(&Resumed::sizes, gen::lists(1, 4, inRange(1, 20))), set(&Resumed::dtypes, dtypes),
      set(&Resumed::seed, inRange<uint64_t>(0, 1 << 20)));
}

bool loads_in_an_epoch(const Resumed& c) {
  const int64_t own = (c.length + c.world.size - 1) / c.world.size;
  const int64_t batches = (own + c.batch_size - 1) / c.batch_size;
  return steps_loaded(c) % batches != 0;
}

}  // namespace

Scenario resume_is_going_on() {
  return scenario<Resumed>({
      .name = "checkpoint.resume_is_going_on",
      .claim = "A training that was saved and loaded goes on with the bits of the one that never "
               "stopped.",
      .in_full =
          "A training whose model, optimizer, sampler, progress and generators were saved and "
          "loaded into new objects goes on with the bits of the one that never stopped; the files "
          "that are kept are the newest and the best; and both calls wait for a rank as long as "
          "their own timeouts say.",
      .exactness = "bit-equal",
      .source = "PyTorch's DDP tutorial, save and load checkpoints; docs/ddp.md",
      .not_covered = "worlds of another size, generators of devices",
      .usual_mistake = "saving parameters alone: momentum, the learning rate, the place in the "
                       "epoch and the stream of random numbers begin anew.",
      .tags = {"checkpoint", "training", "sampler"},
      .must_catch = {"best_checkpoint_is_never_replaced", "checkpoint_drops_the_dampening",
                     "checkpoint_gives_all_groups_one_setting", "checkpoint_keeps_one_more",
                     "checkpoint_loads_the_first_generator_alone",
                     "checkpoint_places_count_within_groups", "checkpoint_rounds_counts_of_updates",
                     "checkpoint_samples_used_ignored", "checkpoint_states_end_at_a_gap",
                     "every_rank_loads_the_generators_of_rank_zero",
                     "load_waits_as_long_as_its_group", "loaded_optimizer_keeps_its_states",
                     "loaded_options_are_dropped", "loaded_sampler_begins_its_epoch_anew",
                     "loaded_state_of_the_optimizer_counts_from_zero",
                     "older_checkpoints_shift_by_two", "save_waits_as_long_as_its_group"},
      .draws = 80,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = [](const Resumed& c) { return why_shares_round(c.world); },
      .program = program,
      .checks = {ranks_have_masks_of_their_own, resumed_is_straight, files_are_those_to_keep,
                 each_file_holds_its_step, calls_end_in_time},
      .labels = {{"three ranks and more", 0.5, has_three_ranks<Resumed>},
                 {"a checkpoint within an epoch", 0.25, loads_in_an_epoch},
                 {"a checkpoint that is not the newest", 0.2,
                  [](const Resumed& c) { return steps_loaded(c) != last_save(c); }},
                 {"several param groups", 0.2, [](const Resumed& c) { return group_count(c) > 1; }},
                 {"settings that are not the defaults", 0.45,
                  [](const Resumed& c) { return c.settings > 0; }},
                 {"a parameter that has no state yet", 0.04,
                  [](const Resumed& c) {
                    return has_late_parameter(c) && c.late >= steps_loaded(c);
                  }},
                 {"a state that the file lacks", 0.01,
                  [](const Resumed& c) {
                    return has_trained(c) && has_late_parameter(c) && c.late >= steps_loaded(c);
                  }},
                 {"samples drawn ahead", 0.2, [](const Resumed& c) { return c.prefetched > 0; }},
                 {"numbers at an edge of what is exact", 0.2,
                  [](const Resumed& c) { return c.count_log2 == 24 || c.count_log2 >= 52; }},
                 {"older files that are dropped", 0.05,
                  [](const Resumed& c) { return kept(c) < saves(c); }},
                 {"a rank that its peers do not wait for", 0.02,
                  [](const Resumed& c) { return late_rank(c) >= 0; }},
                 {"two generators", 0.15, [](const Resumed& c) { return c.two_generators; }},
                 {"an optimizer with state", 0.5,
                  [](const Resumed& c) { return c.optimizer != OptimizerKind::sgd; }}},
  });
}

}  // namespace lockstep::scenarios::checkpoint_resume_is_going_on
