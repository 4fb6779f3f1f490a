#include "scenarios/replicas/assembled.h"

#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

namespace lockstep::scenarios::replicas {

namespace {

at::Tensor tensor_of(const GivenTensor& given, const RankContext& here) {
  const auto rank = here.rank();
  const auto options = torch::dtype(scalar_type(dtype_of(given))).device(here.device());
  const auto shape = shape_of(given);
  if (given.memory == Memory::none) return torch::empty(shape, options.device(at::kMeta));
  if (given.memory == Memory::expanded)
    return torch::full(std::vector<int64_t>(shape.size(), 1), initial_value(given, rank), options)
        .expand(shape);
  auto value = at::empty_strided(shape, strides_of(given), options);
  return value.fill_(initial_value(given, rank));
}

std::string stem_of(const std::string& name) {
  return name.substr(0, name.find('.'));
}

}  // namespace

Assembled::Assembled(const Given& given, const RankContext& here) {
  for (size_t i = 0; i < given.tensors.size(); ++i) {
    const auto& each = given.tensors[i];
    Part part{each, {}, nullptr};
    const bool learns = requires_gradient(each);
    if (each.form.kind == TensorKind::embedding) {
      const auto shape = shape_of(each);
      torch::nn::Embedding embedding(
          torch::nn::EmbeddingOptions(shape[0], shape[1]).sparse(each.form.sparse));
      embedding->to(here.device(), scalar_type(dtype_of(each)));
      torch::NoGradGuard no_grad;
      embedding->weight.fill_(initial_value(each, here.rank()));
      embedding->weight.set_requires_grad(learns);
      part.embedding = register_module(stem_of(each.name), embedding.ptr());
      part.tensor = embedding->weight;
    } else {
      part.tensor = each.same_as == i ? tensor_of(each, here) : parts_[each.same_as].tensor;
      if (each.form.kind == TensorKind::buffer)
        part.tensor = register_buffer(each.name, part.tensor);
      else
        part.tensor = register_parameter(each.name, part.tensor, learns);
    }
    parts_.push_back(part);
  }
}

at::Tensor Assembled::forward(const at::Tensor& coefficients) {
  auto sum = coefficients.sum() * 0;
  for (const auto& part : parts_) {
    if (part.given.memory != Memory::own) continue;
    const auto used =
        part.embedding
            ? part.embedding->forward(torch::arange(part.tensor.size(0), part.tensor.device()))
            : part.tensor;
    sum = sum + used.to(at::kDouble).sum() * coefficients[part.given.place];
  }
  return sum;
}

const Assembled::Part* Assembled::find(const std::string& name) const {
  for (const auto& part : parts_)
    if (part.given.name == name) return &part;
  return nullptr;
}

void Assembled::record_values(RankContext& here, const std::vector<std::string>& names) const {
  for (const auto& name : names) {
    const auto* const part = find(name);
    const bool has_values = part != nullptr && part->given.memory == Memory::own;
    here.record(name, has_values ? part->tensor.detach() : torch::empty({0}));
  }
}

void Assembled::record_gradients(RankContext& here, const std::vector<std::string>& names) const {
  for (const auto& name : names) {
    const auto* const part = find(name);
    const bool has_one = part != nullptr && part->given.memory == Memory::own &&
                         part->tensor.requires_grad() && part->tensor.grad().defined();
    here.record(name, has_one ? part->tensor.grad().to_dense() : torch::empty({0}));
  }
}

std::vector<int64_t> coefficients(const Differing& c, int rank, int step) {
  std::vector<int64_t> out;
  for (size_t place = 0; place <= c.tensors.size(); ++place)
    out.push_back(c.world.size *
                  (1 + (rank + step) % c.world.size + static_cast<int64_t>(place % 3)));
  return out;
}

int64_t initial_value(const GivenTensor& tensor, int rank) {
  return 1 + tensor.place + 16 * rank;
}

std::vector<std::string> names_of(const Given& given) {
  std::vector<std::string> names;
  for (const auto& each : given.tensors) names.push_back(each.name);
  return names;
}

}  // namespace lockstep::scenarios::replicas
