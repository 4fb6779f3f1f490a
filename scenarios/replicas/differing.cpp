#include "scenarios/replicas/differing.h"

#include <algorithm>
#include <array>

namespace lockstep::scenarios::replicas {

namespace {

std::string suffix_of(const TensorSpec& form) {
  return form.kind == TensorKind::embedding ? ".weight" : "";
}

// The first name begins all others.
std::string name_at(const TensorSpec& form, size_t place) {
  return "t1" + (place == 0 ? "" : std::to_string(place - 1)) + suffix_of(form);
}

Dtype next_dtype(Dtype dtype) {
  constexpr std::array kAll{Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16};
  const auto here = std::ranges::find(kAll, dtype);
  return here == kAll.end() || here + 1 == kAll.end() ? kAll.front() : *(here + 1);
}

std::vector<std::string> names_with(const Given& given, bool TensorSpec::*flag) {
  std::vector<std::string> names;
  for (const auto& each : given.tensors)
    if (each.form.*flag) names.push_back(each.name);
  return names;
}

using Tensors = std::vector<GivenTensor>;

std::string with_stem(const GivenTensor& tensor, const std::string& addition) {
  const auto suffix = suffix_of(tensor.form);
  return tensor.name.substr(0, tensor.name.size() - suffix.size()) + addition + suffix;
}

void insert_a_further_one(Tensors& all, size_t at) {
  GivenTensor more = all[at];
  more.name = with_stem(more, "_more");
  more.form.tied = more.form.ignored = more.form.delayed = false;
  if (std::ranges::find(all, more.name, &GivenTensor::name) == all.end())
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), more);
}

template <bool TensorSpec::*flag>
void flip(Tensors& all, size_t at) {
  all[at].form.*flag = !(all[at].form.*flag);
}

void set_memory(GivenTensor& tensor, Memory memory) {
  if (tensor.form.kind != TensorKind::embedding) tensor.memory = memory;
}

// Changes one tensor of a rank's list, or the list. Ignoring and delaying change options alone.
struct TensorChange {
  std::string_view word;
  void (*change)(Tensors& all, size_t at);
};

constexpr TensorChange kTensorChanges[]{
    {"missing",
     [](Tensors& all, size_t at) { all.erase(all.begin() + static_cast<std::ptrdiff_t>(at)); }},
    {"further", insert_a_further_one},
    {"renamed", [](Tensors& all, size_t at) { all[at].name = with_stem(all[at], "_renamed"); }},
    {"swapped", [](Tensors& all, size_t at) { std::swap(all[at], all[(at + 1) % all.size()]); }},
    {"shape",
     [](Tensors& all, size_t at) {
       auto& shape = all[at].form.shape;
       if (shape.empty()) shape = {1};
       ++shape.front();
     }},
    {"dimensions", [](Tensors& all, size_t at) { all[at].form.shape.push_back(1); }},
    {"dtype", [](Tensors& all, size_t at) { all[at].form.dtype = next_dtype(all[at].form.dtype); }},
    {"strides", flip<&TensorSpec::transposed>},
    {"frozen", flip<&TensorSpec::frozen>},
    {"tied", flip<&TensorSpec::tied>},
    {"sparse", flip<&TensorSpec::sparse>},
    {"kind",
     [](Tensors& all, size_t at) {
       auto& kind = all[at].form.kind;
       if (kind == TensorKind::embedding) return;
       kind = kind == TensorKind::buffer ? TensorKind::parameter : TensorKind::buffer;
     }},
    {"device", [](Tensors& all, size_t at) { set_memory(all[at], Memory::none); }},
    {"expanded", [](Tensors& all, size_t at) { set_memory(all[at], Memory::expanded); }}};

void change_tensor(Tensors& all, size_t at, const std::string& what) {
  for (const auto& each : kTensorChanges)
    if (each.word == what) each.change(all, at);
}

void change_options(Given& given, const GivenTensor& tensor, const std::string& what) {
  auto& options = given.options;
  const auto flip_in = [&tensor](std::vector<std::string>& names) {
    if (std::erase(names, tensor.name) == 0) names.push_back(tensor.name);
  };
  if (what == kIgnored) flip_in(options.ignored);
  if (what == kDelayed) {
    flip_in(options.delayed);
    options.delayed_until = options.delayed.empty() ? "" : kLast;
  }
  for (const auto& each : kOptionChanges)
    if (each.word == what) each.apply(options);
}

// A tied tensor becomes the one that it is tied to.
void resolve_ties(std::vector<GivenTensor>& all) {
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].same_as = i;
    const auto& shape = all[i].form.shape;
    const bool has_several = std::any_of(shape.begin(), shape.end(), [](int n) { return n > 1; });
    if (all[i].memory == Memory::expanded && !has_several) all[i].memory = Memory::own;
    if (!all[i].form.tied || all[i].form.kind == TensorKind::embedding) continue;
    for (size_t before = i; before-- > 0;) {
      const auto other = all[before];
      if (other.form.kind != all[i].form.kind) continue;
      all[i].same_as = other.same_as;
      all[i].form = other.form;
      all[i].memory = other.memory;
      break;
    }
  }
}

Given given_before_ties(const Differing& c) {
  Given given{.tensors = {}, .options = c.options};
  for (size_t i = 0; i < c.tensors.size(); ++i)
    given.tensors.push_back(
        {.name = name_at(c.tensors[i], i), .form = c.tensors[i], .place = static_cast<int>(i)});
  given.tensors.push_back(
      {.name = kLast, .form = {.shape = {2}}, .place = static_cast<int>(given.tensors.size())});
  auto& options = given.options;
  options.ignored = names_with(given, &TensorSpec::ignored);
  options.delayed = names_with(given, &TensorSpec::delayed);
  if (!options.delayed.empty()) options.delayed_until = kLast;
  return given;
}

Given changed_for(const Differing& c, int rank) {
  const auto before = given_before_ties(c);
  Given given = before;
  for (const auto& each : c.differences) {
    const bool is_its_own = each.rank % c.world.size == rank;
    const auto tensor = static_cast<size_t>(each.tensor) % before.tensors.size();
    if (is_its_own || each.everywhere) change_options(given, before.tensors[tensor], each.what);
    if (is_its_own && !given.tensors.empty())
      change_tensor(given.tensors, static_cast<size_t>(each.tensor) % given.tensors.size(),
                    each.what);
  }
  return given;
}

}  // namespace

Given given_to_all(const Differing& c) {
  auto given = given_before_ties(c);
  resolve_ties(given.tensors);
  return given;
}

Given given_to(const Differing& c, int rank) {
  auto given = changed_for(c, rank);
  for (int other = 0; other < c.world.size; ++other)
    if (const auto options = changed_for(c, other).options;
        has_further(options) || options.batched_grad_copy)
      given.options.further.on_some_rank = true;
  resolve_ties(given.tensors);
  return given;
}

// A module's own come first.
std::vector<size_t> parameters_of(const Given& given) {
  std::vector<size_t> out;
  for (const auto kind : {TensorKind::parameter, TensorKind::embedding})
    for (size_t i = 0; i < given.tensors.size(); ++i)
      if (given.tensors[i].form.kind == kind) out.push_back(i);
  return out;
}

std::vector<size_t> buffers_of(const Given& given) {
  std::vector<size_t> out;
  for (size_t i = 0; i < given.tensors.size(); ++i)
    if (given.tensors[i].form.kind == TensorKind::buffer) out.push_back(i);
  return out;
}

bool is_ignored(const Given& given, size_t tensor) {
  const auto& names = given.options.ignored;
  return std::find(names.begin(), names.end(), given.tensors[tensor].name) != names.end();
}

bool requires_gradient(const GivenTensor& tensor) {
  return tensor.form.kind != TensorKind::buffer && !tensor.form.frozen &&
         dtype_of(tensor) != Dtype::int64;
}

bool is_trained(const Given& given, size_t tensor) {
  if (!requires_gradient(given.tensors[tensor])) return false;
  for (size_t i = 0; i < given.tensors.size(); ++i)
    if (given.tensors[i].same_as == given.tensors[tensor].same_as && !is_ignored(given, i))
      return true;
  return false;
}

std::vector<int64_t> shape_of(const GivenTensor& tensor) {
  std::vector<int64_t> shape(tensor.form.shape.begin(), tensor.form.shape.end());
  if (tensor.form.kind != TensorKind::embedding) return shape;
  shape.resize(2, 1);
  ++shape.front();
  return shape;
}

std::vector<int64_t> strides_of(const GivenTensor& tensor) {
  const auto shape = shape_of(tensor);
  std::vector<int64_t> strides(shape.size(), 1);
  int64_t step = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool forwards = tensor.form.transposed && tensor.form.kind != TensorKind::embedding;
    const size_t axis = forwards ? i : shape.size() - 1 - i;
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

Dtype dtype_of(const GivenTensor& tensor) {
  const auto& form = tensor.form;
  if (form.kind != TensorKind::embedding) return form.dtype;
  return form.dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
}

}  // namespace lockstep::scenarios::replicas
