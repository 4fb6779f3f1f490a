#include "scenarios/replicas/differing.h"

#include <algorithm>
#include <array>

namespace lockstep::scenarios::replicas {

namespace {

// The first name begins all others.
std::string name_at(const TensorSpec& form, size_t place) {
  return "t1" + (place == 0 ? "" : std::to_string(place - 1)) +
         (form.kind == TensorKind::embedding ? ".weight" : "");
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

// Changes one tensor of the list, or the list.
void change_tensor(std::vector<GivenTensor>& all, size_t at, const std::string& what) {
  auto& tensor = all[at];
  auto& form = tensor.form;
  const std::string suffix = form.kind == TensorKind::embedding ? ".weight" : "";
  const auto stem = tensor.name.substr(0, tensor.name.size() - suffix.size());
  const auto is_new = [&](const std::string& name) {
    return std::none_of(all.begin(), all.end(),
                        [&](const GivenTensor& each) { return each.name == name; });
  };
  const auto flip = [&form](bool TensorSpec::*flag) { form.*flag = !(form.*flag); };
  if (what == "missing") {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (what == "further") {
    GivenTensor more = tensor;
    more.name = stem + "_more" + suffix;
    more.form.tied = more.form.ignored = more.form.delayed = false;
    if (is_new(more.name)) all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), more);
  } else if (what == "renamed") {
    tensor.name = stem + "_renamed" + suffix;
  } else if (what == "swapped") {
    std::swap(all[at], all[(at + 1) % all.size()]);
  } else if (what == "shape") {
    if (form.shape.empty()) form.shape = {1};
    ++form.shape.front();
  } else if (what == "dimensions") {
    form.shape.push_back(1);
  } else if (what == "dtype") {
    form.dtype = next_dtype(form.dtype);
  } else if (what == "strides") {
    flip(&TensorSpec::transposed);
  } else if (what == "frozen") {
    flip(&TensorSpec::frozen);
  } else if (what == "tied") {
    flip(&TensorSpec::tied);
  } else if (what == "sparse") {
    flip(&TensorSpec::sparse);
  } else if (what == "kind" && form.kind != TensorKind::embedding) {
    form.kind = form.kind == TensorKind::buffer ? TensorKind::parameter : TensorKind::buffer;
  } else if ((what == "device" || what == "expanded") && form.kind != TensorKind::embedding) {
    tensor.state = what;
  }
}

void change_options(Given& given, const GivenTensor& tensor, const std::string& what) {
  auto& options = given.options;
  const auto flip_in = [&tensor](std::vector<std::string>& names) {
    if (std::erase(names, tensor.name) == 0) names.push_back(tensor.name);
  };
  if (what == "ignored") flip_in(options.ignored);
  if (what == "delayed") {
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
    if (all[i].state == "expanded" && !has_several) all[i].state.clear();
    if (!all[i].form.tied || all[i].form.kind == TensorKind::embedding) continue;
    for (size_t before = i; before-- > 0;) {
      const auto other = all[before];
      if (other.form.kind != all[i].form.kind) continue;
      all[i].same_as = other.same_as;
      all[i].form = other.form;
      all[i].state = other.state;
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
