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
      set(&LayerSpec::kind, weightedElement<std::string>({{5, "vector"},
                                                          {2, "linear"},
                                                          {1, "transposed"},
                                                          {1, "embedding"},
                                                          {1, "channels_last"},
                                                          {2, "sparse"}})),
      set(&LayerSpec::size, sizes()),
      set(&LayerSpec::dtype, weightedElement<std::string>({{10, "float32"},
                                                           {4, "float64"},
                                                           {1, "float16"},
                                                           {1, "bfloat16"},
                                                           {2, "complex64"}})),
      set(&LayerSpec::use,
          weightedElement<std::string>(
              {{7, "once"}, {2, "twice"}, {2, "squared"}, {1, "custom"}, {2, "recomputed"}})),
      set(&LayerSpec::frozen,
          weightedElement<std::string>({{8, "none"}, {1, "weight"}, {1, "all"}})),
      set(&LayerSpec::travels,
          weightedElement<std::string>({{10, "with_others"}, {1, "last"}, {1, "not"}})),
      set(&LayerSpec::tied, one_in(6)),
      set(&LayerSpec::element,
          weightedElement<std::string>(
              {{24, "whole"}, {1, "nan"}, {1, "infinity"}, {2, "subnormal"}})));
}

// Few bits are left over for gradients that depend on parameters which move, and for averages over
// worlds that are no powers of two; see Replicas::why_not_exact.
LayerSpec with_room(LayerSpec layer, const ProgramSpec& c) {
  const bool is_half = layer.dtype == "float16" || layer.dtype == "bfloat16";
  const bool divides_by_three = multiple_of_divisors(c) % 3 == 0;
  if (is_half && (divides_by_three || layer.use == "squared")) layer.dtype = "float32";
  if (layer.use == "squared") layer.dtype = "float64";
  return layer;
}

rc::Gen<Step> steps() {
  const auto ops = weightedElement<std::string>({{10, "forward"},
                                                 {10, "backward"},
                                                 {2, "backward_retained"},
                                                 {2, "backward_together"},
                                                 {2, "bare"},
                                                 {2, "evaluate"},
                                                 {1, "infer"},
                                                 {2, "throw"},
                                                 {4, "zero_none"},
                                                 {3, "zero_in_place"},
                                                 {1, "scale"},
                                                 {3, "update"},
                                                 {1, "update_if_finite"},
                                                 {1, "freeze"},
                                                 {1, "unfreeze"},
                                                 {1, "load"},
                                                 {1, "renew"},
                                                 {1, "convert"},
                                                 {1, "unwrap"},
                                                 {2, "wrap"},
                                                 {1, "regroup"},
                                                 {2, "grad"},
                                                 {2, "relayout"},
                                                 {1, "join"},
                                                 {2, "finish"},
                                                 {1, "tell"},
                                                 {2, "hold"},
                                                 {1, "release"}});
  // Often alike on all ranks: a parameter that no rank uses is a case of its own.
  const auto mask = rc::gen::weightedOneOf<int>({{3, element(1, 2, 4, 8)}, {1, inRange(0, 32)}});
  const auto drawn = gen::build<Step>(
      set(&Step::op, ops), set(&Step::model, weightedElement<int>({{3, 0}, {1, 1}, {1, 2}})),
      set(&Step::no_sync, weightedElement<int>({{6, 0}, {2, 1}, {1, 2}})),
      set(&Step::inside_another, one_in(6)), set(&Step::everywhere, one_in(3)),
      set(&Step::of, inRange(0, 4)), set(&Step::thread, one_in(8)),
      set(&Step::create_graph, one_in(5)),
      set(&Step::inputs,
          weightedElement<std::string>({{12, "no"}, {1, "parameters"}, {1, "first"}})),
      set(&Step::penalty, one_in(8)), set(&Step::penalty_alone, one_in(9)),
      set(&Step::direct, weightedElement<std::string>({{6, "no"}, {1, "beside"}, {1, "alone"}})),
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
        if (step.penalty_alone && is_alone) step.direct = "alone";
        return step;
      },
      drawn, one_in(2));
}

rc::Gen<WrapOptions> wrap_options() {
  const auto drawn = gen::build<WrapOptions>(
      set(&WrapOptions::broadcast_buffers, gen::map(one_in(4), [](bool off) { return !off; })),
      set(&WrapOptions::bucket_cap_bytes,
          element<int64_t>(0, 0, 1, 8, 16, 40, 100, 1 << 10, 1 << 20)),
      set(&WrapOptions::find_unused_parameters),
      set(&WrapOptions::gradient_as_bucket_view, one_in(2)),
      set(&WrapOptions::static_graph, one_in(5)),
      set(&WrapOptions::skip_all_reduce_unused_params, one_in(3)),
      set(&WrapOptions::batched_grad_copy, one_in(4)),
      set(&WrapOptions::init_sync, gen::map(one_in(5), [](bool off) { return !off; })),
      set(&WrapOptions::buffer_sync_lag, gen::map(one_in(4), [](bool off) { return !off; })),
      set(&WrapOptions::bucket_caps_bytes,
          rc::gen::weightedOneOf<std::vector<int64_t>>(
              {{4, rc::gen::just(std::vector<int64_t>{})},
               {1, gen::lists(1, 3, element<int64_t>(0, 8, 40, 1000))}})));
  return gen::map(drawn, [](WrapOptions options) {
    if (!options.find_unused_parameters && !options.static_graph)
      options.skip_all_reduce_unused_params = false;
    return options;
  });
}

rc::Gen<EnvironmentSpec> environments() {
  return gen::build<EnvironmentSpec>(
      set(&EnvironmentSpec::flushes_denormals, one_in(6)),
      set(&EnvironmentSpec::default_dtype,
          weightedElement<std::string>({{6, "float32"}, {2, "float64"}, {1, "bfloat16"}})),
      set(&EnvironmentSpec::is_deterministic, one_in(6)),
      set(&EnvironmentSpec::wraps_without_gradients, one_in(4)),
      set(&EnvironmentSpec::threads, weightedElement<int>({{5, 1}, {1, 2}, {1, 3}, {1, 4}})));
}

// The steps that mean something, of one mask for a whole program where its graph is static.
ProgramSpec tidied(ProgramSpec c) {
  if (c.options.static_graph) {
    const auto first = std::find_if(c.steps.begin(), c.steps.end(), [](const Step& each) {
      return each.op == "forward" || each.op == "bare";
    });
    const Step graph = first == c.steps.end() ? Step() : *first;
    for (auto& step : c.steps) {
      step.unused = graph.unused;
      step.left_out_of_loss = graph.left_out_of_loss;
    }
  } else if (!c.options.find_unused_parameters) {
    for (auto& step : c.steps)
      if (step.op == "forward" && step.no_sync == 0) {
        step.unused.clear();
        step.left_out_of_loss.clear();
      }
  }
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
  const auto world =
      gen::build<WorldSpec>(set(&WorldSpec::size, weightedElement<int>({{4, 2}, {3, 3}, {3, 4}})),
                            set(&WorldSpec::injections, delays()));
  const auto alone = gen::build<ProgramSpec>(
      set(&ProgramSpec::world, world), set(&ProgramSpec::steps, gen::lists(2, 24, steps())),
      set(&ProgramSpec::layers, layer_lists()),
      set(&ProgramSpec::outputs, weightedElement<int>({{3, 1}, {1, 2}, {1, 3}})),
      set(&ProgramSpec::nested, one_in(3)), set(&ProgramSpec::returns_first, one_in(8)),
      set(&ProgramSpec::models, weightedElement<int>({{5, 1}, {2, 2}, {1, 3}})),
      set(&ProgramSpec::buffers,
          gen::lists(
              0, 2,
              element<std::string>("float32", "float64", "int64", "int32", "bool", "uint8", "int8",
                                   "int16", "float16", "bfloat16", "complex64", "special"))),
      set(&ProgramSpec::ignored_buffers, weightedElement<int>({{4, 0}, {1, 1}, {1, 2}})),
      set(&ProgramSpec::order_by_rank), set(&ProgramSpec::options, wrap_options()),
      set(&ProgramSpec::environment, environments()),
      set(&ProgramSpec::learning_rate_log2, inRange(-3, 0)),
      set(&ProgramSpec::seed, inRange<uint64_t>(0, 1 << 20)));
  return gen::map(with_situations(alone), tidied);
}

}  // namespace lockstep::scenarios::programs
