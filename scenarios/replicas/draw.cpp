#include "scenarios/replicas/draw.h"

#include "harness/cases/generators.h"
#include "scenarios/cases/draw.h"

#include <algorithm>

namespace lockstep::scenarios::replicas {

namespace {

const std::vector<std::string> kOfTensors(kTensorDifferences.begin(), kTensorDifferences.end());
const std::vector<std::string> kOfOptions = [] {
  std::vector<std::string> words;
  for (const auto& each : kOptionChanges) words.emplace_back(each.word);
  return words;
}();

bool is_of_options(const std::string& what) {
  return std::find(kOfOptions.begin(), kOfOptions.end(), what) != kOfOptions.end();
}

rc::Gen<TensorSpec> tensors() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::weightedElement;
  const auto seldom = weightedElement<bool>({{5, false}, {1, true}});
  const auto shapes = gen::lists(0, 3, rc::gen::inRange(1, 4));
  return gen::build<TensorSpec>(
      set(&TensorSpec::kind,
          weightedElement<TensorKind>(
              {{5, TensorKind::parameter}, {5, TensorKind::buffer}, {1, TensorKind::embedding}})),
      set(&TensorSpec::shape, shapes),
      set(&TensorSpec::dtype, weightedElement<Dtype>({{6, Dtype::float32},
                                                      {3, Dtype::float64},
                                                      {1, Dtype::float16},
                                                      {1, Dtype::bfloat16},
                                                      {1, Dtype::int64}})),
      set(&TensorSpec::transposed, seldom), set(&TensorSpec::frozen, seldom),
      set(&TensorSpec::tied, seldom), set(&TensorSpec::sparse), set(&TensorSpec::ignored, seldom),
      set(&TensorSpec::delayed, seldom));
}

rc::Gen<WrapOptions> drawn_options() {
  using gen::set;
  return wrap_options(
      {set(&WrapOptions::broadcast_buffers),
       set(&WrapOptions::bucket_cap_bytes, rc::gen::element<int64_t>(0, 0, 1, 16, 1 << 18))},
      rc::gen::weightedElement<bool>({{3, false}, {1, true}}),
      {{&WrapOptions::skip_all_reduce_unused_params, {}}});
}

// Alike tensors differ in nothing but their names, so that only their order or sharing may differ.
void make_alike(std::vector<TensorSpec>& tensors) {
  for (auto& each : tensors) {
    each.shape = tensors.front().shape;
    each.dtype = tensors.front().dtype;
    each.transposed = tensors.front().transposed;
    each.frozen = tensors.front().frozen;
  }
}

// The part that all ranks have in common can be trained.
Differing tidied(Differing c) {
  for (auto& each : c.differences) each.everywhere = each.everywhere && is_of_options(each.what);
  if (c.options.bucket_cap_bytes != 0) c.options.bucket_caps_bytes.clear();
  for (auto& tensor : c.tensors)
    if (tensor.kind == TensorKind::buffer || tensor.frozen || tensor.tied || tensor.ignored ||
        tensor.kind == TensorKind::embedding || tensor.dtype == Dtype::int64)
      tensor.delayed = false;
  return c;
}

}  // namespace

const std::vector<std::string>& differences_of_tensors() {
  return kOfTensors;
}

const std::vector<std::string>& differences_of_options() {
  return kOfOptions;
}

// A matrix, one like it, a buffer, an embedding and a vector that does not learn.
std::vector<Differing> every_difference() {
  const std::vector<TensorSpec> tensors{{.shape = {2, 3}},
                                        {.shape = {2, 3}},
                                        {.kind = TensorKind::buffer, .shape = {3}},
                                        {.kind = TensorKind::embedding},
                                        {.shape = {2}, .frozen = true}};
  std::vector<Differing> all;
  const auto add = [&](const std::string& what, int world, int rank, int tensor) {
    all.push_back({.world = {.size = world},
                   .differences = {{.what = what, .rank = rank, .tensor = tensor}},
                   .tensors = tensors});
  };
  for (int world : {2, 3})
    for (int rank = 0; rank < world; ++rank) {
      for (const auto& what : kOfTensors)
        for (int tensor = 1; tensor < 3; ++tensor) add(what, world, rank, tensor);
      for (const auto& what : kOfOptions) add(what, world, rank, 0);
      add("sparse", world, rank, 3);
      add("delayed", world, rank, 4);
    }
  for (const auto& what : kOfOptions)
    all.push_back({.world = {.size = 3},
                   .differences = {{.what = what, .everywhere = true}},
                   .tensors = tensors});
  return all;
}

rc::Gen<Differing> differing() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  const auto words = rc::gen::weightedOneOf<std::string>(
      {{8, rc::gen::elementOf(kOfTensors)},
       {8, element<std::string>("missing", "further", "shape", "dtype", "frozen")},
       {1, rc::gen::just(std::string("tied"))},
       {5, rc::gen::elementOf(kOfOptions)}});
  const auto difference =
      gen::build<Difference>(set(&Difference::what, words), set(&Difference::rank, inRange(0, 60)),
                             set(&Difference::tensor, inRange(0, 60)));
  const auto alike = gen::build<Difference>(set(&Difference::what, rc::gen::elementOf(kOfOptions)),
                                            set(&Difference::everywhere, rc::gen::just(true)));
  const auto of_one_rank = gen::apply(
      [](std::vector<Difference> all, int rank) {
        for (auto& each : all) each.rank = rank;
        return all;
      },
      gen::lists(1, 3, difference), inRange(0, 60));
  const auto caps = rc::gen::weightedOneOf<std::vector<int64_t>>(
      {{3, rc::gen::just(std::vector<int64_t>{})},
       {1, gen::lists(1, 3, element<int64_t>(1, 16, 1 << 18))}});
  const auto options = gen::apply(
      [](WrapOptions all, bool init_sync, bool lag, const std::vector<int64_t>& each) {
        all.init_sync = init_sync;
        all.buffer_sync_lag = lag;
        all.bucket_caps_bytes = each;
        return all;
      },
      drawn_options(), rc::gen::weightedElement<bool>({{3, true}, {1, false}}),
      rc::gen::arbitrary<bool>(), caps);
  return gen::map(
      gen::build<Differing>(
          set(&Differing::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 6)))),
          set(&Differing::differences,
              rc::gen::weightedOneOf<std::vector<Difference>>({{8, gen::lists(1, 1, difference)},
                                                               {3, of_one_rank},
                                                               {6, gen::lists(2, 3, difference)},
                                                               {3, gen::lists(1, 1, alike)}})),
          set(&Differing::tensors, gen::apply(
                                       [](std::vector<TensorSpec> all, bool are_alike) {
                                         if (are_alike) make_alike(all);
                                         return all;
                                       },
                                       gen::lists(0, 4, tensors()), rc::gen::arbitrary<bool>())),
          set(&Differing::options, options)),
      tidied);
}

}  // namespace lockstep::scenarios::replicas
