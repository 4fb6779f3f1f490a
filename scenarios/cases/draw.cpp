#include "scenarios/cases/draw.h"

#include "harness/cases/generators.h"

#include <algorithm>
#include <utility>

namespace lockstep::scenarios {

namespace {

using gen::set;
using rc::gen::inRange;

rc::Gen<DenseLayer> layers() {
  return gen::build<DenseLayer>(set(&DenseLayer::width, inRange(1, 5)), set(&DenseLayer::bias),
                                set(&DenseLayer::relu));
}

rc::Gen<NetworkSpec> networks() {
  return gen::build<NetworkSpec>(
      set(&NetworkSpec::hidden, gen::lists(0, 2, layers())),
      set(&NetworkSpec::branches, inRange(1, 4)), set(&NetworkSpec::inputs, inRange(1, 4)),
      set(&NetworkSpec::buffers,
          gen::lists(0, 3,
                     rc::gen::element(Dtype::float32, Dtype::float64, Dtype::int64, Dtype::bool_))),
      set(&NetworkSpec::frozen,
          rc::gen::weightedElement<FrozenDtype>(
              {{3, FrozenDtype::none}, {1, FrozenDtype::float32}, {1, FrozenDtype::float64}})),
      set(&NetworkSpec::order_by_rank));
}

// Options that must not change what a rank observes, a few at a time.
rc::Gen<WrapOptions> harmless_options() {
  return wrap_options({set(&WrapOptions::broadcast_buffers),
                       set(&WrapOptions::bucket_cap_bytes,
                           rc::gen::element<int64_t>(0, 1, 8, 16, 40, 100, 1 << 20))},
                      rc::gen::weightedElement<bool>({{2, false}, {1, true}}));
}

}  // namespace

rc::Gen<WrapOptions> wrap_options(std::vector<gen::Setter<WrapOptions>> before,
                                  const rc::Gen<bool>& switches,
                                  const std::vector<SwitchDraw>& otherwise,
                                  const std::vector<gen::Setter<WrapOptions>>& behind) {
  auto setters = std::move(before);
  for (const auto& each : WrapOptions::kSwitches) {
    const auto found = std::find_if(otherwise.begin(), otherwise.end(), [&](const SwitchDraw& one) {
      return one.option == each.value;
    });
    if (found == otherwise.end())
      setters.push_back(set(each.value, switches));
    else if (found->values)
      setters.push_back(set(each.value, *found->values));
  }
  setters.insert(setters.end(), behind.begin(), behind.end());
  return gen::map(gen::build_from<WrapOptions>(std::move(setters)), [](WrapOptions options) {
    if (!options.find_unused_parameters && !options.static_graph)
      options.skip_all_reduce_unused_params = false;
    return options;
  });
}

rc::Gen<std::vector<Injection>> delays() {
  constexpr int kCollectives = 40;
  const auto delay = gen::build<Injection>(
      set(&Injection::kind, rc::gen::just<InjectionKind>(InjectionKind::delay)),
      set(&Injection::rank, inRange(0, 4)), set(&Injection::collective, inRange(0, kCollectives)),
      set(&Injection::amount, rc::gen::element(1, 99, 101, 150, 250, 400)));
  return rc::gen::weightedOneOf<std::vector<Injection>>(
      {{2, rc::gen::just(std::vector<Injection>{})}, {1, gen::lists(1, 2, delay)}});
}

rc::Gen<Training> trainings() {
  const auto world = gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 5)));
  return gen::build<Training>(
      set(&Training::world, world), set(&Training::steps, inRange(1, 4)),
      set(&Training::network, networks()), set(&Training::batch_log2, inRange(0, 5)),
      set(&Training::shares, gen::lists(0, 3, inRange(0, 5))),
      set(&Training::optimizer, rc::gen::element(OptimizerKind::none, OptimizerKind::sgd)),
      set(&Training::learning_rate_log2, inRange(-3, 1)),
      set(&Training::options, harmless_options()),
      set(&Training::dtype,
          rc::gen::weightedElement<Dtype>({{3, Dtype::float32}, {1, Dtype::float64}})),
      set(&Training::values,
          rc::gen::weightedElement<Values>({{3, Values::exact}, {1, Values::real}})),
      set(&Training::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace lockstep::scenarios
