#include "scenarios/programs/draw/draw.h"

#include "harness/cases/generators.h"
#include "scenarios/cases/draw.h"
#include "scenarios/programs/actions.h"
#include "scenarios/programs/draw/situations.h"

#include <algorithm>
#include <utility>

namespace lockstep::scenarios::programs {

namespace {

using gen::set;
using rc::gen::element;
using rc::gen::inRange;
using rc::gen::weightedElement;

// Around vector widths, and around the sizes at which kernels use more threads.
rc::Gen<int64_t> sizes() {
  return rc::gen::weightedOneOf<int64_t>(
      {{12, element<int64_t>(0, 1, 1, 2, 3, 4, 5, 7, 8, 9)},
       {4, element<int64_t>(15, 16, 17, 31, 32, 33, 63, 64, 65)},
       {2, element<int64_t>(127, 128, 129, 255, 257, 1000, 1023, 1025)}});
}

rc::Gen<LayerSpec> layers() {
  return gen::build<LayerSpec>(
      set(&LayerSpec::kind, weightedElement<LayerKind>({{5, LayerKind::vector},
                                                        {2, LayerKind::linear},
                                                        {1, LayerKind::transposed},
                                                        {1, LayerKind::embedding},
                                                        {1, LayerKind::channels_last},
                                                        {2, LayerKind::sparse}})),
      set(&LayerSpec::size, sizes()),
      set(&LayerSpec::dtype, weightedElement<Dtype>({{10, Dtype::float32},
                                                     {4, Dtype::float64},
                                                     {1, Dtype::float16},
                                                     {1, Dtype::bfloat16},
                                                     {2, Dtype::complex64}})),
      set(&LayerSpec::use, weightedElement<Use>({{7, Use::once},
                                                 {2, Use::twice},
                                                 {2, Use::squared},
                                                 {1, Use::custom},
                                                 {2, Use::recomputed}})),
      set(&LayerSpec::frozen,
          weightedElement<FrozenPart>(
              {{8, FrozenPart::none}, {1, FrozenPart::weight}, {1, FrozenPart::all}})),
      set(&LayerSpec::travels,
          weightedElement<Travels>(
              {{10, Travels::with_others}, {1, Travels::last}, {1, Travels::not_}})),
      set(&LayerSpec::tied, one_in(6)),
      set(&LayerSpec::element, weightedElement<Element>({{24, Element::whole},
                                                         {1, Element::nan},
                                                         {1, Element::infinity},
                                                         {2, Element::subnormal}})));
}

// Few bits are left over for gradients that depend on parameters which move, and for averages over
// worlds that are no powers of two; see Replicas::why_not_exact.
LayerSpec with_room(LayerSpec layer, const ProgramSpec& c) {
  const bool divides_by_three = multiple_of_divisors(c) % 3 == 0;
  if (is_half(layer.dtype) && (divides_by_three || layer.use == Use::squared))
    layer.dtype = Dtype::float32;
  if (layer.use == Use::squared) layer.dtype = Dtype::float64;
  return layer;
}

rc::Gen<Step> steps() {
  const auto ops = weightedElement<Op>({{10, Op::forward},
                                        {10, Op::backward},
                                        {2, Op::backward_retained},
                                        {2, Op::backward_together},
                                        {2, Op::bare},
                                        {2, Op::evaluate},
                                        {1, Op::infer},
                                        {2, Op::throw_},
                                        {4, Op::zero_none},
                                        {3, Op::zero_in_place},
                                        {1, Op::scale},
                                        {3, Op::update},
                                        {1, Op::update_if_finite},
                                        {1, Op::freeze},
                                        {1, Op::unfreeze},
                                        {1, Op::load},
                                        {1, Op::renew},
                                        {1, Op::convert},
                                        {1, Op::unwrap},
                                        {2, Op::wrap},
                                        {1, Op::regroup},
                                        {2, Op::grad},
                                        {2, Op::relayout},
                                        {1, Op::join},
                                        {2, Op::finish},
                                        {1, Op::tell},
                                        {2, Op::hold},
                                        {1, Op::release}});
  // Often alike on all ranks: a parameter that no rank uses is a case of its own.
  const auto mask = rc::gen::weightedOneOf<int>({{3, element(1, 2, 4, 8)}, {1, inRange(0, 32)}});
  const auto drawn = gen::build<Step>(
      set(&Step::op, ops), set(&Step::model, weightedElement<int>({{3, 0}, {1, 1}, {1, 2}})),
      set(&Step::no_sync, weightedElement<int>({{6, 0}, {2, 1}, {1, 2}})),
      set(&Step::inside_another, one_in(6)), set(&Step::everywhere, one_in(3)),
      set(&Step::of, inRange(0, 4)), set(&Step::thread, one_in(8)),
      set(&Step::create_graph, one_in(5)),
      set(&Step::inputs,
          weightedElement<Inputs>({{12, Inputs::no}, {1, Inputs::parameters}, {1, Inputs::first}})),
      set(&Step::penalty, one_in(8)), set(&Step::penalty_alone, one_in(9)),
      set(&Step::direct,
          weightedElement<Direct>({{6, Direct::no}, {1, Direct::beside}, {1, Direct::alone}})),
      set(&Step::unused,
          rc::gen::weightedOneOf<std::vector<int>>({{2, rc::gen::just(std::vector<int>{})},
                                                    {1, gen::lists(1, 1, mask)},
                                                    {1, gen::lists(2, 3, mask)}})),
      set(&Step::left_out_of_loss,
          rc::gen::weightedOneOf<std::vector<int>>(
              {{5, rc::gen::just(std::vector<int>{})}, {1, gen::lists(1, 3, element(2, 4, 0))}})),
      set(&Step::infinite, weightedElement<int>({{20, 0}, {1, 1}, {1, 2}})),
      set(&Step::ranks, weightedElement<int>({{3, 15}, {1, 1}, {1, 2}, {1, 6}})),
      set(&Step::layer, inRange(0, 5)), set(&Step::forgotten, one_in(3)),
      set(&Step::cut, weightedElement<int>({{2, 0}, {1, 1}, {1, 2}, {1, 3}})));
  // A penalty alone often has the first parameter beside it, which forward then does not use.
  return gen::apply(
      [](Step step, bool is_alone) {
        if (step.penalty_alone && is_alone) step.direct = Direct::alone;
        return step;
      },
      drawn, one_in(2));
}

rc::Gen<WrapOptions> options() {
  const auto seldom_off = [](size_t n) {
    return gen::map(one_in(n), [](bool off) { return !off; });
  };
  return wrap_options({set(&WrapOptions::broadcast_buffers, seldom_off(4)),
                       set(&WrapOptions::bucket_cap_bytes,
                           element<int64_t>(0, 0, 1, 8, 16, 40, 100, 1 << 10, 1 << 20))},
                      one_in(4),
                      {{&WrapOptions::find_unused_parameters, rc::gen::arbitrary<bool>()},
                       {&WrapOptions::gradient_as_bucket_view, one_in(2)},
                       {&WrapOptions::static_graph, one_in(5)},
                       {&WrapOptions::skip_all_reduce_unused_params, one_in(3)}},
                      {set(&WrapOptions::init_sync, seldom_off(5)),
                       set(&WrapOptions::buffer_sync_lag, seldom_off(4)),
                       set(&WrapOptions::bucket_caps_bytes,
                           rc::gen::weightedOneOf<std::vector<int64_t>>(
                               {{4, rc::gen::just(std::vector<int64_t>{})},
                                {1, gen::lists(1, 3, element<int64_t>(0, 8, 40, 1000))}}))});
}

rc::Gen<EnvironmentSpec> environments() {
  return gen::build<EnvironmentSpec>(
      set(&EnvironmentSpec::flushes_denormals, one_in(6)),
      set(&EnvironmentSpec::default_dtype,
          weightedElement<Dtype>({{6, Dtype::float32}, {2, Dtype::float64}, {1, Dtype::bfloat16}})),
      set(&EnvironmentSpec::is_deterministic, one_in(6)),
      set(&EnvironmentSpec::wraps_without_gradients, one_in(4)),
      set(&EnvironmentSpec::threads, weightedElement<int>({{5, 1}, {1, 2}, {1, 3}, {1, 4}})));
}

// The steps that mean something, of one mask for a whole program where its graph is static.
ProgramSpec tidied(ProgramSpec c) {
  if (c.options.static_graph) {
    const auto first = std::find_if(c.steps.begin(), c.steps.end(), [](const Step& each) {
      return each.op == Op::forward || each.op == Op::bare;
    });
    const Step graph = first == c.steps.end() ? Step() : *first;
    for (auto& step : c.steps) {
      step.unused = graph.unused;
      step.left_out_of_loss = graph.left_out_of_loss;
    }
  } else if (!c.options.find_unused_parameters) {
    for (auto& step : c.steps)
      if (step.op == Op::forward && step.no_sync == 0) {
        step.unused.clear();
        step.left_out_of_loss.clear();
      }
  }
  if (c.hook != BucketHook::none)
    for (auto& step : c.steps) step.rounds = false;  // hooks scale each in its own way
  for (auto& layer : c.layers) layer = with_room(layer, c);
  std::vector<Step> steps;
  int last = -1;
  for (const auto& action : actions_of(c))
    if (std::exchange(last, action.number) != action.number)
      steps.push_back(with_own_fields(action.step));
  c.steps = std::move(steps);
  return c;
}

rc::Gen<std::vector<LayerSpec>> layer_lists() {
  LayerSpec large;
  const auto large_ones =
      gen::map(element<int64_t>(4097, 32767, 32768, 32769, 65537, 100003), [large](int64_t size) {
        auto layer = large;
        layer.size = size;
        return std::vector<LayerSpec>{{}, layer, {.size = 3}};
      });
  return rc::gen::weightedOneOf<std::vector<LayerSpec>>({{52, gen::lists(1, 5, layers())},
                                                         {5, gen::lists(6, 30, layers())},
                                                         {2, gen::lists(31, 70, layers())},
                                                         {10, large_ones}});
}

}  // namespace

rc::Gen<ProgramSpec> program_specs() {
  const auto world = gen::build<WorldSpec>(
      set(&WorldSpec::size,
          weightedElement<int>({{20, 2}, {14, 3}, {14, 4}, {1, 5}, {1, 6}, {1, 7}})),
      set(&WorldSpec::injections, delays()));
  const auto alone = gen::build<ProgramSpec>(
      set(&ProgramSpec::world, world), set(&ProgramSpec::steps, gen::lists(2, 24, steps())),
      set(&ProgramSpec::layers, layer_lists()),
      set(&ProgramSpec::outputs, weightedElement<int>({{3, 1}, {1, 2}, {1, 3}})),
      set(&ProgramSpec::nested, one_in(3)), set(&ProgramSpec::returns_first, one_in(8)),
      set(&ProgramSpec::models, weightedElement<int>({{5, 1}, {2, 2}, {1, 3}})),
      set(&ProgramSpec::buffers,
          gen::lists(0, 2,
                     element(BufferKind::float32, BufferKind::float64, BufferKind::int64,
                             BufferKind::int32, BufferKind::bool_, BufferKind::uint8,
                             BufferKind::int8, BufferKind::int16, BufferKind::float16,
                             BufferKind::bfloat16, BufferKind::complex64, BufferKind::special))),
      set(&ProgramSpec::ignored_buffers, weightedElement<int>({{4, 0}, {1, 1}, {1, 2}})),
      set(&ProgramSpec::order_by_rank), set(&ProgramSpec::options, options()),
      set(&ProgramSpec::hook,
          weightedElement<BucketHook>(
              {{6, BucketHook::none}, {1, BucketHook::all_reduce}, {1, BucketHook::gathered}})),
      set(&ProgramSpec::environment, environments()),
      set(&ProgramSpec::learning_rate_log2, inRange(-3, 0)),
      set(&ProgramSpec::seed, inRange<uint64_t>(0, 1 << 20)));
  return gen::map(with_situations(alone), tidied);
}

}  // namespace lockstep::scenarios::programs
