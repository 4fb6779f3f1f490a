#include "scenarios/programs/lifecycle.h"

#include "scenarios/programs/buffers.h"
#include "scenarios/programs/values.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::programs {

namespace {

at::ScalarType other_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble || dtype == at::kComplexFloat ? at::kComplexDouble : at::kDouble;
}

// `value` of the form of `like`.
at::Tensor converted_back(const at::Tensor& value, const at::Tensor& like) {
  const bool is_real = !like.is_complex() && value.is_complex();
  return at::empty_strided(like.sizes(), like.strides(), like.options())
      .copy_(is_real ? at::real(value) : value);
}

}  // namespace

void load(const ProgramSpec& c, const Action& action, int rank, LayeredModel& model) {
  const torch::NoGradGuard no_grad;
  const auto parameters = model.distinct_parameters();
  for (size_t p = 0; p < parameters.size(); ++p)
    numbers_of(parameters[p].value)
        .copy_(loaded_parameter(c, action, p, numbers_of(parameters[p].value).sizes()));
  const auto buffers = model.buffers();
  for (size_t b = 0; b < buffers.size(); ++b)
    buffers[b].copy_(buffer_of(c.buffers[b], loaded_buffer(c, action, b, rank)));
}

void scale(const LayeredModel& model) {
  const torch::NoGradGuard no_grad;
  for (const auto& each : model.distinct_parameters())
    if (each.value.grad().defined()) numbers_of(each.value.grad()).mul_(kScale);
}

at::Tensor with_other_strides(const at::Tensor& tensor) {
  const auto now = tensor.detach();
  return now.dim() > 1 ? now.transpose(0, 1).clone(at::MemoryFormat::Contiguous).transpose(0, 1)
                       : at::stack({now, at::zeros_like(now)}, -1).select(-1, 0);
}

void relayout(LayeredModel& model) {
  for (auto& each : model.distinct_parameters()) {
    auto& gradient = each.value.mutable_grad();
    if (gradient.defined() && !gradient.is_sparse()) gradient = with_other_strides(gradient);
  }
}

void renew(LayeredModel& model) {
  for (auto& each : model.distinct_parameters()) each.value.set_data(each.value.detach().clone());
  for (auto& each : model.buffers()) each.set_data(each.detach().clone());
}

void convert(LayeredModel& model) {
  for (auto& [name, value] : model.distinct_parameters()) {
    const auto before = value.detach();
    value.set_data(before.to(other_dtype(before.scalar_type())));
    value.set_data(converted_back(value.detach(), before));
  }
}

Group group_of(const ProgramSpec& c, RankContext& here, int cut) {
  const auto parts = parts_of_world(c, cut);
  if (parts.size() == 1) return here.group();
  const auto own = std::find_if(parts.begin(), parts.end(), [&](const std::vector<int>& part) {
    return std::find(part.begin(), part.end(), here.rank()) != part.end();
  });
  return here.group_of(*own);
}

}  // namespace lockstep::scenarios::programs
