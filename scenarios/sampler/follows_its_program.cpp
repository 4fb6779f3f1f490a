// A sampler that is begun, drawn from in parts, copied, saved, loaded, resized and set to other
// epochs draws what docs/semantics.md 4 says, whatever the order of these.
//
// A case is a program as data: a list of acts, run on every rank on a sampler of its own. Each act
// records what it drew, or that it was refused. The reference follows the same list with the few
// values that the semantics names (the epoch set last, one pass and whether it was loaded), and
// takes every order from reference/sampling.h. Sequences shrink by dropping acts. The numbers that
// LibTorch's own generator gives after all acts show whether the sampler has touched it.
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/rank/tensors.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/labels.h"
#include "scenarios/sampler/acting.h"
#include "scenarios/sampler/draw.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep::scenarios::sampler_follows_its_program {
namespace {

constexpr int64_t kGeneratorSeed = 17;

Samples from_the_default_generator() {
  const auto drawn = torch::randint(1 << 20, {4}, at::kLong);
  return {drawn.const_data_ptr<int64_t>(), drawn.const_data_ptr<int64_t>() + 4};
}

void program(const Acts& c, RankContext& here) {
  torch::manual_seed(kGeneratorSeed);
  Acting acting(c, here);
  for (size_t step = 0; step < c.acts.size(); ++step) {
    here.enter(static_cast<int>(step), "act");
    const auto [samples, is_refused] = acting.run(c.acts[step]);
    here.record("samples", samples);
    here.record("refused", torch::tensor(is_refused));
  }
  here.enter(static_cast<int>(c.acts.size()), "end");
  here.record("default generator", from_the_default_generator());
}

bool is_refusal(const TensorValue& expected) {
  return expected == int64_values(kRefused);
}

// The samples of an act that is refused are none.
std::vector<TensorValue> drawn(std::vector<TensorValue> expected) {
  for (auto& each : expected)
    if (is_refusal(each)) each = int64_values({});
  return expected;
}

Explanations usual_mistakes(const Acts& c, size_t step) {
  const auto instead = [&](SamplerMistake mistake, const char* pattern, const char* text) {
    return recorded_instead({pattern, text}, drawn(expected_samples(c, mistake)[step]));
  };
  return {
      instead(SamplerMistake::position_lost, "position_lost",
              "the epoch from its start: the loaded position is lost"),
      instead(SamplerMistake::loaded_position_reset, "loaded_position_reset",
              "the epoch from its start: beginning a pass dropped the loaded position"),
      instead(SamplerMistake::loaded_epoch_kept, "loaded_epoch_kept",
              "the loaded pass, though another epoch was set after it was loaded"),
      instead(SamplerMistake::loaded_pass_repeats, "loaded_pass_repeats",
              "the rest of the loaded pass, though a pass after it has begun"),
      instead(SamplerMistake::loaded_position_overwritten, "loaded_position_overwritten",
              "what follows the samples of another copy, which drew after the position was loaded"),
      instead(SamplerMistake::used_ignored, "samples_used_ignored",
              "the samples after those drawn, not after those named as used"),
  };
}

TensorValue truth(bool value) {
  return value_of(torch::tensor(value));
}

// Returns explanations of an act that is not refused where it must be, or is where it must not.
Explanations usual_refusals(bool has_wrong_order, bool is_another_sampler) {
  Explanations out{recorded_instead(
      {"position_refused", "it was refused, where the sampler must go on"}, {truth(true)})};
  out.push_back(recorded_instead(
      is_another_sampler ? Diagnosis{"state_of_another_sampler",
                                     "it went on, where a sampler of another rank, world or "
                                     "options must refuse the state"}
      : has_wrong_order
          ? Diagnosis{"wrong_order_taken",
                      "it went on, where the order that the program gave must be refused"}
          : Diagnosis{"position_of_another_dataset",
                      "it went on, where the position of another dataset, or one that is not "
                      "reached yet, must be refused"},
      {truth(false)}));
  return out;
}

Findings every_act_is_refused_where_it_should(const Acts& c, const History& h) {
  const auto right = expected_samples(c, SamplerMistake::none);
  std::vector<Comparison> rows;
  for (size_t step = 0; step < c.acts.size(); ++step) {
    std::vector<TensorValue> expected;
    for (const auto& each : right[step]) expected.push_back(truth(is_refusal(each)));
    const bool draws_in_wrong_order =
        c.acts[step].act == ActKind::draw && c.order >= SampleOrder::undefined;
    rows.push_back({.row = h.row({static_cast<int>(step), "act"}, "refused"),
                    .expected = std::move(expected),
                    .explanations = [draws_in_wrong_order, kind = c.acts[step].act] {
                      return usual_refusals(draws_in_wrong_order, kind == ActKind::reseed);
                    }});
  }
  return equal(
      "A sampler must refuse a position that is not its own, an order that is none, and no other",
      rows);
}

Findings every_act_draws_what_it_should(const Acts& c, const History& h) {
  const auto right = expected_samples(c, SamplerMistake::none);
  std::vector<Comparison> rows;
  for (size_t step = 0; step < c.acts.size(); ++step)
    rows.push_back({.row = h.row({static_cast<int>(step), "act"}, "samples"),
                    .expected = drawn(right[step]),
                    .explanations = [&c, step] { return usual_mistakes(c, step); }});
  return equal("Every act must draw what the sampler's rules say", rows);
}

Findings the_default_generator_is_untouched(const Acts& c, const History& h) {
  auto generator = at::detail::createCPUGenerator(kGeneratorSeed);
  const auto drawn = torch::randint(1 << 20, {4}, generator, at::kLong);
  const Samples right(drawn.const_data_ptr<int64_t>(), drawn.const_data_ptr<int64_t>() + 4);
  const std::vector<TensorValue> expected(static_cast<size_t>(c.world.size), int64_values(right));
  return equal("A sampler must leave LibTorch's default generator alone",
               {{.row = h.row({static_cast<int>(c.acts.size()), "end"}, "default generator"),
                 .expected = expected}});
}

// True if acts of these kinds come one after another, with any others between them.
bool has_in_order(const Acts& c, const std::vector<ActKind>& kinds) {
  auto kind = kinds.begin();
  for (const auto& [act, amount] : c.acts) {
    const bool is_it = act == *kind || (*kind == ActKind::load && act == ActKind::restart) ||
                       (*kind == ActKind::save && act == ActKind::save_at);
    if (is_it && ++kind == kinds.end()) return true;
  }
  return false;
}

template <ActKind... kKinds>
bool acts_are(const Acts& c) {
  return has_in_order(c, {kKinds...});
}

std::string why_no_sampler(const Acts& c) {
  return c.length == 0 && !c.allow_empty ? "a sampler of no samples is not made" : "";
}

}  // namespace

Scenario follows_its_program() {
  return scenario<Acts>({
      .name = "sampler.follows_its_program",
      .claim = "A sampler that is saved, loaded, copied or resized goes on where it was.",
      .in_full = "A sampler that is saved, loaded, copied, resized and set to other epochs in any "
                 "order goes on where it was, and refuses a position of another dataset.",
      .exactness = "same order",
      .source = "docs/semantics.md 0.6 and 4",
      .not_covered = "data loaders with workers, another world size, datasets of 2^32 samples",
      .usual_mistake = "saving the model and not the sampler: after a restart the epoch begins "
                       "again, and some samples are trained on twice.",
      .tags = {"sampler"},
      .must_catch = {"loaded_position_overwritten_by_a_copy", "refused_size_is_kept",
                     "sampler_begin_drops_the_loaded_position",
                     "sampler_computes_the_next_epochs_order",
                     "sampler_draws_one_order_of_a_program", "sampler_epoch_saved_for_the_pass",
                     "sampler_keeps_the_loaded_pass", "sampler_loaded_pass_repeats",
                     "sampler_loads_another_ranks_state", "sampler_loads_another_worlds_state",
                     "sampler_reads_memory_for_an_order", "sampler_samples_used_ignored",
                     "sampler_takes_an_order_of_two_axes", "sampler_takes_indices_below_zero",
                     "sampler_takes_an_order_too_long", "sampler_takes_another_groups_rank",
                     "sampler_uses_the_default_generator", "sampler_refuses_a_pass_that_is_over"},
      .draws = 100,
      .start = {.world = {.size = 2}},
      .every = every_small_program,
      .cases = drawn_programs(),
      .precondition = why_no_sampler,
      .program = program,
      .checks = {every_act_is_refused_where_it_should, every_act_draws_what_it_should,
                 the_default_generator_is_untouched},
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Acts>},
                 {"a draw after a position in mid-epoch was loaded", 0.15,
                  acts_are<ActKind::draw, ActKind::save, ActKind::load, ActKind::draw>},
                 {"another epoch after a load", 0.05,
                  acts_are<ActKind::save, ActKind::load, ActKind::epoch, ActKind::draw>},
                 {"a draw in an order of the program's own", 0.06,
                  [](const Acts& c) {
                    return c.order != SampleOrder::own && has_in_order(c, {ActKind::draw});
                  }},
                 {"an order that is refused", 0.03,
                  [](const Acts& c) {
                    return is_refused(c.order, c.length) && has_in_order(c, {ActKind::draw});
                  }},
                 {"a draw behind a load in an order that is not stored", 0.01,
                  [](const Acts& c) {
                    return is_computed(c) && has_in_order(c, {ActKind::draw, ActKind::save,
                                                              ActKind::load, ActKind::draw});
                  }},
                 {"a state that is loaded where it does not belong", 0.15,
                  acts_are<ActKind::save, ActKind::reseed>},
                 {"two copies that draw", 0.15,
                  acts_are<ActKind::copy, ActKind::draw, ActKind::turn, ActKind::draw>},
                 {"a size of 0 that is refused", 0.06,
                  [](const Acts& c) {
                    return !c.allow_empty && std::ranges::any_of(c.acts, [](const Act& each) {
                      return each.act == ActKind::resize && each.amount == 0;
                    });
                  }},
                 {"a dataset that changes its size", 0.1,
                  acts_are<ActKind::resize, ActKind::draw>}},
  });
}

}  // namespace lockstep::scenarios::sampler_follows_its_program
