#include "scenarios/sync_batch_norm/draw.h"

#include "harness/cases/generators.h"

#include <utility>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

// Averages far from zero and from the variance, in every dtype.
std::vector<Layer> every_far_average() {
  std::vector<Layer> all;
  for (const auto dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16})
    for (const int average_log2 : {14, 12, 6})
      for (const auto values : {Values::exact, Values::real})
        all.push_back({.world = {.size = 2},
                       .norm = {.channels = 2},
                       .spatial = {2, 2},
                       .average_log2 = average_log2,
                       .samples = {3, 1},
                       .dtype = dtype,
                       .values = values,
                       .seed = 5});
  return all;
}

// Deviations from eps' root to a hundredth of it, and averages ten thousand times the deviation.
std::vector<Layer> every_small_deviation() {
  std::vector<Layer> all;
  for (const auto dtype : {Dtype::float32, Dtype::float64, Dtype::float16})
    for (const int spread_log2 : {-4, -8, -12})
      for (const int64_t eps_log2 : {-17, -8})
        all.push_back({.world = {.size = 3},
                       .norm = {.channels = 2, .eps_log2 = eps_log2},
                       .spatial = {3},
                       .spread_log2 = spread_log2,
                       .samples = {2, 1, 3},
                       .dtype = dtype,
                       .values = Values::real,
                       .seed = 6});
  for (const auto dtype : {Dtype::float32, Dtype::float64})
    all.push_back({.world = {.size = 2},
                   .norm = {.channels = 2},
                   .spatial = {2, 2},
                   .average_log2 = 14,
                   .spread_log2 = -1,
                   .samples = {3, 1},
                   .dtype = dtype,
                   .seed = 6});
  return all;
}

// More channels than one message of the subject holds, and 10^5 values per channel.
std::vector<Layer> every_large_one() {
  std::vector<Layer> all;
  for (const int64_t channels : {512, 513, 1100})
    all.push_back({.world = {.size = 2},
                   .norm = {.channels = channels},
                   .samples = {3, 2},
                   .dtype = channels == 512 ? Dtype::float32 : Dtype::float64,
                   .values = Values::real,
                   .seed = 8});
  for (const int world : {1, 3})
    all.push_back({.world = {.size = world},
                   .norm = {.channels = 2},
                   .spatial = {16, 16},
                   .samples = world == 1 ? std::vector<int>{400} : std::vector<int>{300, 0, 100},
                   .values = Values::real,
                   .seed = 8});
  return all;
}

// More values per channel than half precision can count, and than one thread takes.
std::vector<Layer> every_one_that_threads_share() {
  std::vector<Layer> all;
  for (const auto dtype : {Dtype::float16, Dtype::bfloat16, Dtype::float32})
    for (const auto& [spatial, samples] : {std::pair(std::vector{33, 64}, std::vector{1, 4}),
                                           std::pair(std::vector{7}, std::vector{1000, 301})})
      for (const auto layout : {LayerLayout::contiguous, LayerLayout::channels_last})
        all.push_back({.world = {.size = 2},
                       .norm = {.channels = 17},
                       .spatial = spatial,
                       .samples = samples,
                       .dtype = dtype,
                       .threads = 3,
                       .layout = layout,
                       .values = Values::real,
                       .seed = 15});
  return all;
}

// The fewest values per channel that have a variance, in several worlds; a world of one.
std::vector<Layer> every_fewest_values() {
  std::vector<Layer> all;
  for (const int world : {1, 2, 5})
    for (const auto& samples : std::vector<std::vector<int>>{{2, 0, 0, 0, 0}, {1, 1, 0, 0, 0}})
      for (const auto values : {Values::exact, Values::real})
        if (world > 1 || samples.front() == 2)
          all.push_back({.world = {.size = world},
                         .steps = 2,
                         .norm = {.channels = 3},
                         .samples = samples,
                         .values = values,
                         .seed = 9});
  return all;
}

}  // namespace

std::vector<Layer> every_layer() {
  auto all = every_far_average();
  for (const auto& more : {every_small_deviation(), every_large_one(),
                           every_one_that_threads_share(), every_fewest_values()})
    all.insert(all.end(), more.begin(), more.end());
  for (const int world : {2, 3})
    for (const auto& samples : std::vector<std::vector<int>>{{}, {1}, {6, 2}, {0, 4}, {0}})
      for (const auto& spatial : std::vector<std::vector<int>>{{}, {2, 2}})
        for (const auto upstream : {Upstream::all, Upstream::none, Upstream::some})
          all.push_back({.world = {.size = world},
                         .norm = {.channels = 2},
                         .spatial = spatial,
                         .samples = samples,
                         .upstream = upstream,
                         .values = world == 2 ? Values::exact : Values::real,
                         .seed = 3});
  for (const auto dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16})
    for (const auto layout :
         {LayerLayout::contiguous, LayerLayout::channels_last, LayerLayout::strided})
      for (const auto gradient_layout :
           {LayerLayout::contiguous, LayerLayout::channels_last, LayerLayout::strided})
        all.push_back({.world = {.size = 2},
                       .norm = {.channels = 3},
                       .spatial = {2, 3},
                       .samples = {3, 1},
                       .dtype = dtype,
                       .layout = layout,
                       .gradient_layout = gradient_layout,
                       .values = Values::real,
                       .seed = 4});
  return all;
}

namespace {

rc::Gen<NormOptions> norms() {
  using rc::gen::inRange, gen::set;
  // Few, and sometimes one more or less than loops take at once.
  const auto channels = rc::gen::weightedOneOf<int64_t>(
      {{6, inRange<int64_t>(1, 5)},
       {1, rc::gen::element<int64_t>(7, 8, 9, 15, 16, 17, 31, 33, 65)}});
  return gen::build<NormOptions>(
      set(&NormOptions::channels, channels), set(&NormOptions::eps_log2, inRange<int64_t>(-17, 2)),
      set(&NormOptions::momentum_log2, inRange<int64_t>(-4, 1)),
      set(&NormOptions::zero_momentum, rc::gen::weightedElement<bool>({{7, false}, {1, true}})),
      set(&NormOptions::cumulative), set(&NormOptions::affine),
      set(&NormOptions::track_running_stats,
          rc::gen::weightedElement<bool>({{4, true}, {1, false}})));
}

}  // namespace

rc::Gen<Layer> drawn_layers() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  using Sizes = std::vector<int>;
  const auto samples = gen::lists(0, 3, inRange(0, 7));
  const auto layouts =
      element(LayerLayout::contiguous, LayerLayout::channels_last, LayerLayout::strided);
  const auto any = gen::build<Layer>(
      set(&Layer::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
      set(&Layer::steps, inRange(1, 3)), set(&Layer::norm, norms()),
      set(&Layer::spatial, rc::gen::elementOf(std::vector<Sizes>{
                               {}, {1}, {3}, {2, 2}, {3, 1}, {1, 2, 2}, {7}, {3, 3}, {17}})),
      set(&Layer::average_log2, element(0, 0, 4, 8, 12, 14)),
      set(&Layer::spread_log2, element(0, 0, 0, -4, -8, -12)), set(&Layer::samples, samples),
      set(&Layer::upstream, element(Upstream::all, Upstream::none, Upstream::some)),
      set(&Layer::frozen, element(FrozenOfLayer::none, FrozenOfLayer::none, FrozenOfLayer::weight,
                                  FrozenOfLayer::bias, FrozenOfLayer::both)),
      set(&Layer::half_parameters), set(&Layer::threads, element(1, 1, 2, 3, 4)),
      set(&Layer::dtype, element(Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16)),
      set(&Layer::layout, layouts), set(&Layer::gradient_layout, layouts),
      set(&Layer::values, element(Values::exact, Values::real)),
      set(&Layer::seed, inRange<uint64_t>(0, 1 << 20)));
  return gen::map(any, [](Layer c) {
    if (values_per_channel(c) == 1) c.samples = {};
    if (c.average_log2 > 0) c.spread_log2 = 0;  // rounding would decide the deviation
    if (!is_half(c.dtype)) c.half_parameters = false;
    if (!c.norm.affine) c.frozen = FrozenOfLayer::none;
    if (c.norm.cumulative) c.norm.zero_momentum = false;
    return c;
  });
}

}  // namespace lockstep::scenarios::sync_batch_norm
