#include "scenarios/errors/draw.h"

#include "harness/cases/generators.h"
#include "scenarios/cases/draw.h"

namespace lockstep::scenarios::errors {

namespace {

using gen::set;
using rc::gen::element;
using rc::gen::inRange;
using rc::gen::weightedElement;

constexpr int kMany = 60;  // of any number of ranks, steps and parameters up to six

// One rank mostly, some, or all.
rc::Gen<Ranks> ranks() {
  return rc::gen::weightedOneOf<Ranks>({{2, gen::lists(1, 1, inRange(0, kMany))},
                                        {2, gen::lists(2, 3, inRange(0, kMany))},
                                        {2, rc::gen::just(Ranks{})}});
}

rc::Gen<Lack> lacks() {
  return gen::build<Lack>(
      set(&Lack::how,
          weightedElement<LackKind>(
              {{2, LackKind::unused}, {1, LackKind::left_out}, {1, LackKind::undefined}})),
      set(&Lack::step, inRange(0, kMany)), set(&Lack::parameter, inRange(0, kMany)),
      set(&Lack::local, weightedElement<bool>({{3, false}, {1, true}})),
      set(&Lack::ranks, ranks()));
}

rc::Gen<Mistake> mistakes() {
  return gen::build<Mistake>(
      set(&Mistake::kind, weightedElement<MistakeKind>({{3, MistakeKind::throw_in_backward},
                                                        {2, MistakeKind::in_the_loss},
                                                        {2, MistakeKind::dtype},
                                                        {2, MistakeKind::sparse},
                                                        {2, MistakeKind::twice},
                                                        {2, MistakeKind::throw_in_forward},
                                                        {1, MistakeKind::frozen},
                                                        {1, MistakeKind::converted},
                                                        {1, MistakeKind::strided},
                                                        {1, MistakeKind::unhooked},
                                                        {1, MistakeKind::registered},
                                                        {1, MistakeKind::buffer_converted},
                                                        {1, MistakeKind::reported},
                                                        {1, MistakeKind::hook_loaded},
                                                        {1, MistakeKind::forward_in_backward},
                                                        {6, MistakeKind::forward_twice},
                                                        {3, MistakeKind::skipped},
                                                        {5, MistakeKind::late}})),
      set(&Mistake::step, inRange(0, kMany)), set(&Mistake::parameter, inRange(0, kMany)),
      set(&Mistake::ranks, ranks()));
}

rc::Gen<WrapOptions> options() {
  return wrap_options(
      {set(&WrapOptions::broadcast_buffers),
       set(&WrapOptions::bucket_cap_bytes, element<int64_t>(0, 1, 8, 16, 40, 100))},
      weightedElement<bool>({{2, false}, {1, true}}),
      {{&WrapOptions::static_graph, weightedElement<bool>({{1, false}, {1, true}})}});
}

rc::Gen<Erring> trainings() {
  return gen::build<Erring>(
      set(&Erring::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)),
                                                set(&WorldSpec::injections, delays()))),
      set(&Erring::steps, inRange(2, 5)), set(&Erring::sizes, gen::lists(1, 5, inRange(1, 5))),
      set(&Erring::local_passes, weightedElement<int>({{3, 0}, {1, 1}, {1, 2}})),
      set(&Erring::clears,
          weightedElement<Clears>(
              {{2, Clears::none}, {1, Clears::zero}, {2, Clears::own}, {2, Clears::nothing}})),
      set(&Erring::order_by_rank), set(&Erring::buffer),
      set(&Erring::embedding, weightedElement<bool>({{3, false}, {2, true}})),
      set(&Erring::hook, weightedElement<bool>({{3, false}, {1, true}})),
      set(&Erring::options, options()),
      set(&Erring::dtype, weightedElement<Dtype>({{3, Dtype::float32}, {1, Dtype::float64}})),
      set(&Erring::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace

rc::Gen<Erring> lacking() {
  return gen::apply(
      [](Erring c, std::vector<Lack> all) {
        c.lacks = std::move(all);
        return c;
      },
      trainings(), gen::lists(1, 3, lacks()));
}

rc::Gen<Erring> erring() {
  const auto seldom = rc::gen::weightedOneOf<std::vector<Lack>>(
      {{3, rc::gen::just(std::vector<Lack>{})}, {1, gen::lists(1, 2, lacks())}});
  const auto attempts = gen::lists(
      0, 4,
      element(Attempt::forward, Attempt::local_forward, Attempt::forward_without_gradients,
              Attempt::join, Attempt::update, Attempt::check, Attempt::bare));
  const auto before = weightedElement<bool>({{2, false}, {1, true}});
  return gen::apply(
      [](Erring c, Mistake mistake, std::vector<Lack> some, std::vector<Attempt> attempts,
         bool skips_before, MistakeKind registration, bool updates_before) {
        c.attempts = std::move(attempts);
        c.mistake = std::move(mistake);
        c.lacks = std::move(some);
        if (c.mistake.kind == MistakeKind::forward_twice) c.buffer = false;
        if (c.mistake.kind == MistakeKind::buffer_converted) {
          c.buffer = c.options.broadcast_buffers = true;
          c.local_passes = 0;
        }
        if (c.mistake.kind == MistakeKind::hook_loaded) {
          c.lacks.clear();
          c.mistake.step = 1;
        }
        // Peers of a rank that is late wait for it as long as their timeout says.
        if (c.mistake.kind == MistakeKind::late) c.world.injections.clear();
        if (registers(c.mistake.kind)) c.mistake.kind = registration;
        c.skips_before = skips_before;
        c.updates_before = updates_before && registers(c.mistake.kind);
        if (!why_nothing_may_come_before(c).empty()) c.skips_before = false;
        return c;
      },
      trainings(), mistakes(), seldom, attempts, before,
      element(MistakeKind::registered, MistakeKind::registered_buffer,
              MistakeKind::registered_module),
      rc::gen::arbitrary<bool>());
}

}  // namespace lockstep::scenarios::errors
