#include "scenarios/hooks/draw.h"

#include "harness/cases/generators.h"
#include "scenarios/cases/draw.h"

#include <algorithm>

namespace lockstep::scenarios::hooks {

namespace {

using gen::set;
using rc::gen::element;
using rc::gen::inRange;
using rc::gen::weightedElement;
using rc::gen::weightedOneOf;

rc::Gen<Size> sizes(const rc::Gen<int>& rows, const rc::Gen<int>& columns) {
  return gen::build<Size>(set(&Size::rows, rows), set(&Size::columns, columns),
                          set(&Size::depth, weightedElement<int>({{2, 1}, {1, 2}, {1, 3}})));
}

rc::Gen<WrapOptions> options() {
  return wrap_options(
      {set(&WrapOptions::bucket_cap_bytes, element<int64_t>(0, 1, 16, 40, 100, 1000))},
      weightedElement<bool>({{3, false}, {1, true}}),
      {{&WrapOptions::skip_all_reduce_unused_params, {}}});
}

rc::Gen<Hooked> of(const rc::Gen<HookOptions>& hooks, const rc::Gen<Size>& sizes,
                   const rc::Gen<int>& steps) {
  return gen::build<Hooked>(
      set(&Hooked::world, gen::build<WorldSpec>(set(&WorldSpec::size, element(2, 2, 3, 3, 4, 5)))),
      set(&Hooked::steps, steps), set(&Hooked::hook, hooks),
      set(&Hooked::sizes, gen::lists(1, 5, sizes)), set(&Hooked::options, options()),
      set(&Hooked::dtype, weightedElement<Dtype>({{6, Dtype::float32},
                                                  {2, Dtype::float64},
                                                  {1, Dtype::float16},
                                                  {1, Dtype::bfloat16}})),
      set(&Hooked::values, weightedElement<Values>({{2, Values::exact}, {3, Values::real}})),
      set(&Hooked::magnitude_log2,
          weightedOneOf<int>(
              {{3, rc::gen::just(0)}, {5, inRange(-20, 14)}, {3, rc::gen::just(127)}})),
      set(&Hooked::is_constant, weightedElement<bool>({{7, false}, {1, true}})),
      set(&Hooked::inputs, weightedOneOf<std::vector<int>>({{5, rc::gen::just(std::vector<int>{})},
                                                            {4, gen::lists(2, 4, inRange(0, 5))}})),
      set(&Hooked::divisor, element(JoinKind::world, JoinKind::live)),
      set(&Hooked::seed, inRange<uint64_t>(0, 1 << 20)));
}

rc::Gen<HookCompression> around() {
  return weightedElement<HookCompression>({{4, HookCompression::none},
                                           {1, HookCompression::fp16_compress},
                                           {1, HookCompression::bf16_compress}});
}

// Keeps the first of two compressions or dtypes of 16 bits, and what the hook can hold.
rc::Gen<Hooked> rounded_once(const rc::Gen<Hooked>& cases) {
  return gen::map(cases, [](Hooked c) {
    if (compresses(c.hook.kind)) c.hook.around = HookCompression::none;
    if (is_half(c.dtype) && sent_dtype(c) != c.dtype) c.dtype = Dtype::float32;
    c.magnitude_log2 = std::min(c.magnitude_log2, magnitude_log2_max(c));
    if (steps_of(c) == 0) c.inputs.clear();
    if (has_join(c)) c.options.static_graph = false;
    return c;
  });
}

}  // namespace

rc::Gen<Hooked> averaging() {
  const auto hooks = gen::build<HookOptions>(
      set(&HookOptions::kind, element(HookKind::all_reduce, HookKind::fp16_compress,
                                      HookKind::bf16_compress, HookKind::noop, HookKind::quantize,
                                      HookKind::quantize, HookKind::gathered, HookKind::own_work)),
      set(&HookOptions::around, around()),
      set(&HookOptions::chunk, element<int64_t>(1, 2, 3, 7, 16, 512)));
  const auto few =
      sizes(inRange(1, 9), weightedOneOf<int>({{2, rc::gen::just(0)}, {1, inRange(1, 9)}}));
  const auto many = sizes(inRange(500, 1600), inRange(0, 3));
  return gen::map(
      rounded_once(of(hooks, weightedOneOf<Size>({{7, few}, {1, many}}), inRange(1, 5))),
      [](Hooked c) {
        c.is_constant = false;
        return c;
      });
}

std::vector<Hooked> every_averaging() {
  std::vector<Hooked> all;
  for (const int world : {2, 3})
    for (const auto kind :
         {HookKind::all_reduce, HookKind::fp16_compress, HookKind::bf16_compress, HookKind::noop,
          HookKind::quantize, HookKind::gathered, HookKind::own_work})
      for (const int64_t cap : {0, 1})
        for (const auto values : {Values::exact, Values::real})
          all.push_back({.world = {.size = world},
                         .steps = 3,
                         .hook = {.kind = kind, .chunk = 4},
                         .sizes = {{3, 2}, {5}},
                         .options = {.bucket_cap_bytes = cap},
                         .values = values,
                         .seed = 1});
  for (const auto kind :
       {HookKind::all_reduce, HookKind::fp16_compress, HookKind::bf16_compress, HookKind::noop,
        HookKind::quantize, HookKind::gathered, HookKind::own_work})
    all.push_back({.world = {.size = 3},
                   .steps = 3,
                   .hook = {.kind = kind, .chunk = 4},
                   .sizes = {{3, 2}, {5}},
                   .inputs = {1, 3, 2},
                   .divisor = JoinKind::live,
                   .seed = 1});
  // A chunk of one element is sent as it is.
  all.push_back({.world = {.size = 2},
                 .hook = {.kind = HookKind::quantize, .chunk = 1},
                 .sizes = {{3, 2}},
                 .dtype = Dtype::float64,
                 .values = Values::real,
                 .seed = 1});
  // Their averages have a place in what is sent, and some of their sums have none.
  for (const auto kind :
       {HookKind::all_reduce, HookKind::own_work, HookKind::fp16_compress, HookKind::bf16_compress})
    for (const auto dtype : {Dtype::float32, Dtype::float16}) {
      if (is_half(dtype) && compresses(kind)) continue;
      Hooked large{.world = {.size = 4},
                   .hook = {.kind = kind},
                   .sizes = {{100}},
                   .dtype = dtype,
                   .values = Values::real,
                   .seed = 1};
      large.magnitude_log2 = magnitude_log2_max(large);
      all.push_back(large);
    }
  return all;
}

rc::Gen<Hooked> approximating() {
  const auto hooks = gen::build<HookOptions>(
      set(&HookOptions::kind, rc::gen::just<HookKind>(HookKind::power_sgd)),
      set(&HookOptions::around, around()), set(&HookOptions::matrix_rank, inRange(1, 5)),
      set(&HookOptions::start, weightedElement<int64_t>({{3, 0}, {1, 1}, {2, 2}})),
      set(&HookOptions::use_error_feedback, weightedElement<bool>({{2, true}, {1, false}})),
      set(&HookOptions::warm_start, weightedElement<bool>({{2, true}, {1, false}})),
      set(&HookOptions::compression_log2,
          weightedElement<int64_t>({{4, 0}, {1, 1}, {1, 2}, {1, -1}, {1, -3}, {1, -8}})),
      set(&HookOptions::random_seed, element<int64_t>(0, 0, 1, 2, 1 << 20)));
  const auto shapes = weightedOneOf<Size>({{1, sizes(inRange(1, 9), rc::gen::just(0))},
                                           {3, sizes(inRange(2, 20), inRange(2, 20))},
                                           {1, sizes(inRange(20, 50), inRange(3, 30))}});
  return gen::map(rounded_once(of(hooks, shapes, inRange(1, 6))), [](Hooked c) {
    // To converge, or so that some steps are approximated.
    c.steps = static_cast<int>(c.hook.start) + (c.is_constant ? kStepsToConverge : c.steps);
    if (c.is_constant) c.inputs.clear();
    // A rate below 1 lets a matrix be approximated by more columns than it has.
    if (auto& first = c.sizes.front(); c.hook.compression_log2 < 0 && first.columns > 0) {
      first.columns = 2;
      ++c.hook.matrix_rank;
    }
    for (auto& each : c.inputs) each += static_cast<int>(c.hook.start);
    if (c.seed % 2 == 0 && !has_join(c))
      c.reload = static_cast<int>(c.seed / 2 % static_cast<uint64_t>(c.steps));
    c.first_pass = c.seed % 5 == 1   ? FirstPass::zeros
                   : c.seed % 5 == 2 ? FirstPass::infinities
                                     : FirstPass::none;
    return c;
  });
}

std::vector<Hooked> every_approximating() {
  std::vector<Hooked> all;
  for (const int start : {0, 2})  // PyTorch's may begin in the third pass
    for (const int64_t rank : {1, 2})
      for (const bool feeds_back : {true, false})
        for (const bool is_warm : {true, false})
          for (const bool is_constant : {true, false})
            all.push_back({.world = {.size = start == 0 ? 2 : 3},
                           .steps = start + (is_constant ? kStepsToConverge : 4),
                           .hook = {.kind = HookKind::power_sgd,
                                    .matrix_rank = rank,
                                    .start = start,
                                    .use_error_feedback = feeds_back,
                                    .warm_start = is_warm},
                           .sizes = {{8, 6}, {3}},
                           .values = Values::real,
                           .is_constant = is_constant,
                           .seed = 1});
  for (const bool feeds_back : {true, false})
    for (const auto divisor : {JoinKind::world, JoinKind::live})
      all.push_back({.world = {.size = 3},
                     .steps = 4,
                     .hook = {.kind = HookKind::power_sgd, .use_error_feedback = feeds_back},
                     .sizes = {{8, 6}, {3}},
                     .values = Values::real,
                     .inputs = {1, 4, 3},
                     .divisor = divisor,
                     .seed = 1});
  // Rates under which a matrix is just not approximated, and one is that saves nothing.
  for (const int64_t rate : {2, -3})
    for (const int reload : {0, 2})
      all.push_back({.world = {.size = 2},
                     .steps = 3,
                     .hook = {.kind = HookKind::power_sgd,
                              .matrix_rank = 3,
                              .compression_log2 = rate,
                              .random_seed = reload == 0 ? 1 : 0},
                     .sizes = {{8, 6}, {7, 2}, {2, 7}},
                     .values = Values::real,
                     .reload = reload,
                     .seed = 1});
  for (const auto first : {FirstPass::zeros, FirstPass::infinities})
    for (const bool feeds_back : {true, false})
      all.push_back({.world = {.size = 2},
                     .steps = 3,
                     .hook = {.kind = HookKind::power_sgd, .use_error_feedback = feeds_back},
                     .sizes = {{8, 6}},
                     .values = Values::real,
                     .first_pass = first,
                     .seed = 1});
  // It draws the numbers that it begins with in each step, also in those behind a load.
  all.push_back({.world = {.size = 2},
                 .steps = 3,
                 .hook = {.kind = HookKind::power_sgd, .warm_start = false},
                 .sizes = {{8, 6}},
                 .values = Values::real,
                 .reload = 1,
                 .seed = 1});
  return all;
}

}  // namespace lockstep::scenarios::hooks
