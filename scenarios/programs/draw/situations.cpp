#include "scenarios/programs/draw/situations.h"

#include "harness/cases/generators.h"

#include <algorithm>

namespace lockstep::scenarios::programs {

namespace {

using gen::set;
using rc::gen::inRange;
using rc::gen::weightedElement;

// None in most programs.
rc::Gen<Step> joins_if_any() {
  const auto inputs = weightedElement<int>({{3, 0}, {3, 1}, {2, 2}, {1, 3}});
  const auto some = gen::build<Step>(
      set(&Step::op, rc::gen::just(Op(Op::join))), set(&Step::forwards, gen::lists(2, 4, inputs)),
      set(&Step::uneven, weightedElement<JoinKind>({{5, JoinKind::world},
                                                    {7, JoinKind::live},
                                                    {4, JoinKind::throws},
                                                    {1, JoinKind::disabled}})));
  return rc::gen::weightedOneOf<Step>({{1, rc::gen::just(Step())}, {2, some}});
}

// Behind it most steps are of its model, and two are a loop's. Every second time another one
// follows it.
ProgramSpec with_join(ProgramSpec c, Step join, size_t at) {
  if (join.op != Op::join) return c;
  at %= c.steps.size();
  for (size_t i = at; i < c.steps.size(); ++i)
    if (i % 8 != 7) c.steps[i].model = join.model;
  const auto insert = [&](size_t place, const Step& step) {
    const auto end = std::min(place, c.steps.size());
    c.steps.insert(c.steps.begin() + static_cast<std::ptrdiff_t>(end), step);
  };
  insert(at, join);
  if (at % 3 == 0) insert(at + 1, {.model = join.model, .no_sync = 1});
  insert(at + 1, {.op = Op::backward});
  insert(at + 1, {});
  if (at % 2 == 1) {
    std::reverse(join.forwards.begin(), join.forwards.end());
    insert(at + 9, {.op = Op::backward});
    insert(at + 9, {});
    insert(at + 9, join);
    insert(at + 9, {.op = Op::finish});
  }
  if (at % 4 == 2) {  // another group, while all ranks have inputs
    c.steps[at].forwards = join.forwards;
    for (auto& forwards : c.steps[at].forwards) ++forwards;
    insert(at + 3, {.op = Op::regroup, .model = join.model, .cut = static_cast<int>(at)});
  }
  if (!is_shadowed(join)) return c;
  c.options.static_graph = false;
  if (!c.options.find_unused_parameters) c.options.skip_all_reduce_unused_params = false;
  return c;
}

// A pass whose average rounds, mostly of gradients that a pass before it left and that were zeroed;
// in one program of six, before all other steps.
ProgramSpec with_rounding(ProgramSpec c, bool has_one, bool keeps) {
  if (!has_one) return c;
  const Step backward{.op = Op::backward}, in_place{.op = Op::zero_in_place},
      none{.op = Op::zero_none};
  c.steps.insert(c.steps.begin(),
                 {{}, backward, keeps ? in_place : none, {.rounds = true}, backward, in_place});
  c.world.size = 3;
  return c;
}

// The penalty of a model that multiplies its input by its parameters and does nothing else, of a
// local forward, of a synchronised one, or of one in a pass with a local one; in one program of
// six, before all other steps.
ProgramSpec with_plain_penalty(ProgramSpec c, bool has_one, int where) {
  if (!has_one) return c;
  const Step alone{.no_sync = where == 0, .penalty_alone = true, .direct = Direct::alone};
  if (where == 1) {
    c.steps.insert(c.steps.begin(), {alone, {.no_sync = 1}, {.op = Op::backward_together}});
  } else {
    c.steps.insert(c.steps.begin(), {alone, {.op = Op::backward}});
  }
  c.options.find_unused_parameters = c.options.static_graph = false;
  c.options.skip_all_reduce_unused_params = false;
  for (auto& layer : c.layers) {
    if (layer.use == Use::recomputed) layer.use = Use::once;
    layer.frozen = FrozenPart::none;
  }
  return c;
}

// A pass through several models, of which each rank has run the forwards in an order of its own; in
// one program of ten, before all other steps.
ProgramSpec with_models_in_any_order(ProgramSpec c, bool has_one, int models) {
  if (!has_one) return c;
  const Step all{.everywhere = true}, backward{.op = Op::backward_together, .everywhere = true};
  c.steps.insert(c.steps.begin(), {all, backward});
  c.models = models;
  c.options.static_graph = c.options.skip_all_reduce_unused_params = false;
  c.options.broadcast_buffers = false;
  for (auto& layer : c.layers)
    if (layer.kind == LayerKind::sparse) layer.kind = LayerKind::vector;
  return c;
}

// A forward that is refused, and what helps; in one program of four.
ProgramSpec with_refusal(ProgramSpec c, bool has_one, int layer, size_t at) {
  if (!has_one) return c;
  const Step freeze{.op = Op::freeze, .layer = layer, .forgotten = true};
  const auto place = c.steps.begin() + static_cast<std::ptrdiff_t>(at % c.steps.size());
  c.steps.insert(place, {freeze, Step(), {.op = Op::regroup}});
  return c;
}

}  // namespace

rc::Gen<bool> one_in(size_t count) {
  return weightedElement<bool>({{count - 1, false}, {1, true}});
}

rc::Gen<ProgramSpec> with_situations(const rc::Gen<ProgramSpec>& programs) {
  const auto joined = gen::apply(with_join, programs, joins_if_any(), inRange<size_t>(0, 8));
  const auto refused =
      gen::apply(with_refusal, joined, one_in(4), inRange(0, 5), inRange<size_t>(0, 12));
  const auto rounded = gen::apply(with_rounding, refused, one_in(6), rc::gen::arbitrary<bool>());
  const auto penalized = gen::apply(with_plain_penalty, rounded, one_in(6), inRange(0, 3));
  return gen::apply(with_models_in_any_order, penalized, one_in(10), inRange(2, 4));
}

}  // namespace lockstep::scenarios::programs
