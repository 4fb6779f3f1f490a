#include "scenarios/sampler/draw.h"

#include "harness/cases/generators.h"

#include <array>
#include <utility>

namespace lockstep::scenarios {

std::vector<Acts> every_small_program() {
  using enum ActKind;
  constexpr std::array kBetween{begin, resize, epoch, copy, load, restart, reseed};
  std::vector<Acts> all;
  const auto add = [&](std::vector<Act> acts) {
    all.push_back({.world = {.size = 2}, .acts = std::move(acts), .length = 9, .shuffle = true});
  };
  for (const auto saving : {save, save_at})
    for (const auto first : kBetween)
      for (const auto second : kBetween)
        add({{epoch, 3},
             {draw, 2},
             {saving, 1},
             {first, 7},
             {second, 9},
             {draw, 2},
             {begin, 0},
             {draw, 3}});
  // A copy that is in a pass of its own draws between a load and the pass that it is for.
  for (const auto last : {begin, turn})
    add({{draw, 1},
         {copy, 0},
         {draw, 2},
         {save, 0},
         {load, 0},
         {turn, 0},
         {draw, 1},
         {last, 0},
         {draw, 2}});
  return all;
}

rc::Gen<Acts> drawn_programs() {
  using rc::gen::inRange;
  using enum ActKind;
  using enum SampleOrder;
  const auto act = rc::gen::weightedElement<ActKind>({{6, draw},
                                                      {2, begin},
                                                      {1, resize},
                                                      {2, epoch},
                                                      {2, copy},
                                                      {2, turn},
                                                      {2, save},
                                                      {1, save_at},
                                                      {2, load},
                                                      {2, restart},
                                                      {1, reseed}});
  const auto step = gen::apply(
      [](ActKind kind, int64_t amount) {
        return Act{kind, amount};
      },
      act, rc::gen::oneOf(inRange<int64_t>(0, 8), inRange<int64_t>(0, 60)));
  const auto world = gen::build<WorldSpec>(gen::set(&WorldSpec::size, inRange(2, 7)));
  const auto drawn = gen::build<Acts>(
      gen::set(&Acts::world, world),
      gen::set(&Acts::acts, rc::gen::container<std::vector<Act>>(step)),
      gen::set(&Acts::length, rc::gen::oneOf(inRange<int64_t>(0, 12), inRange<int64_t>(0, 60),
                                             inRange<int64_t>(0, 5000))),
      gen::set(&Acts::shuffle, rc::gen::weightedElement<bool>({{4, true}, {1, false}})),
      gen::set(&Acts::drop_last),
      gen::set(&Acts::pad, rc::gen::weightedElement<bool>({{2, true}, {1, false}})),
      gen::set(&Acts::constant_memory, rc::gen::weightedElement<bool>({{2, false}, {1, true}})),
      gen::set(&Acts::order, rc::gen::weightedOneOf<SampleOrder>(
                                 {{12, rc::gen::element(own)},
                                  {6, rc::gen::element(strided, moved, repeated)},
                                  {6, rc::gen::element(undefined, of_int32, of_two_axes, too_short,
                                                       below_zero, too_long)}})),
      gen::set(&Acts::from_group),
      gen::set(&Acts::seed, rc::gen::oneOf(inRange<int64_t>(0, 1 << 20),
                                           inRange<int64_t>((1LL << 32) - 8, (1LL << 32) + 8),
                                           inRange<int64_t>((1LL << 62) - 8, 1LL << 62))),
      gen::set(&Acts::allow_empty));
  return gen::map(drawn, [](Acts c) {
    c.allow_empty = c.allow_empty || c.length == 0;
    for (auto& each : c.acts)
      if (!c.allow_empty && each.act == resize && each.amount % 3 == 0) each.amount = 0;
    return c;
  });
}

}  // namespace lockstep::scenarios
