#include "scenarios/programs/layouts.h"

#include "scenarios/programs/lifecycle.h"
#include "scenarios/programs/run.h"

#include <torch/torch.h>

namespace lockstep::scenarios::programs {

namespace {

std::string row_name(int number, const std::string& parameter) {
  return name_in_records(number, parameter + ".grad strides");
}

// Where an axis has one element, or the tensor none, any stride is right.
std::vector<int64_t> strides_of(const at::Tensor& tensor) {
  auto strides = tensor.strides().vec();
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (tensor.size(static_cast<int64_t>(axis)) == 1 || tensor.numel() == 0) strides[axis] = 0;
  return strides;
}

bool is_shown(const Named& parameter) {
  return parameter.value.dim() > 1;
}

}  // namespace

bool shows_layouts(const Action& action) {
  return is_backward(action.step.op) || action.step.op == Op::relayout;
}

void record_layouts(RankContext& here, int number, const LayeredModel& model) {
  for (const auto& each : model.distinct_parameters()) {
    if (!is_shown(each)) continue;
    const auto& gradient = each.value.grad();
    const bool has_strides = gradient.defined() && !gradient.is_sparse();
    here.record(row_name(number, each.name),
                has_strides ? strides_of(gradient) : std::vector<int64_t>());
  }
}

void record_no_layouts(RankContext& here, int number, const LayeredModel& model) {
  for (const auto& each : model.distinct_parameters())
    if (is_shown(each)) here.record(row_name(number, each.name), std::vector<int64_t>());
}

FollowedLayouts::FollowedLayouts(const ProgramSpec& c, const FollowedModel& model, int number)
    : c_(c), number_(number) {
  const auto parameters = LayeredModel(c, number, build_seed(c, 0)).distinct_parameters();
  for (size_t p = 0; p < parameters.size(); ++p)
    if (is_shown(parameters[p]) && !model.gradients()[p].is_sparse)
      parameters_.push_back({.number = p,
                             .name = parameters[p].name,
                             .own = strides_of(parameters[p].value),
                             .transposed = strides_of(with_other_strides(parameters[p].value))});
  gradients_.resize(static_cast<size_t>(c.world.size));
  for (auto& each : gradients_) each.resize(parameters_.size());
}

void FollowedLayouts::follow(const Action& action, const FollowedModel& model) {
  for (int rank = 0; rank < c_.world.size; ++rank)
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto p = parameters_[i].number;
      auto& gradient = gradients_[static_cast<size_t>(rank)][i];
      const bool is_there = model.replicas().gradient(rank, p).defined();
      if (action.acts[static_cast<size_t>(rank)] && is_there && gradient.is_there)
        follow(action, rank, model.replicas().was_averaged(rank, p), parameters_[i], gradient);
      else if (is_there != gradient.is_there)
        gradient.strides = parameters_[i].own;
      gradient.is_there = is_there;
    }
}

// With create_graph autograd adds out of place.
void FollowedLayouts::follow(const Action& action, int rank, bool was_averaged,
                             const Parameter& parameter, Gradient& gradient) const {
  const auto& step = action.step;
  if (step.op == Op::relayout && has_bit(step.ranks, rank)) gradient.strides = parameter.transposed;
  if (!is_backward(step.op)) return;
  if (step.create_graph) gradient.strides.reset();
  if (c_.options.gradient_as_bucket_view && action.is_synchronised && was_averaged)
    gradient.strides = parameter.own;
}

std::vector<Comparison> FollowedLayouts::rows(const History& h, const Action& action) const {
  std::vector<Comparison> out;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Comparison comparison{
        .row = h.row({action.number, kAfter}, row_name(number_, parameters_[i].name)),
        .expected = {}};
    for (size_t rank = 0; rank < gradients_.size(); ++rank) {
      const auto& gradient = gradients_[rank][i];
      const bool is_known = !gradient.is_there || gradient.strides;
      const auto strides =
          gradient.is_there && action.acts[rank] ? gradient.strides.value_or(Strides()) : Strides();
      comparison.expected.push_back(is_known ? int64_values(strides)
                                             : comparison.row.by_rank[rank]);
    }
    out.push_back(std::move(comparison));
  }
  return out;
}

}  // namespace lockstep::scenarios::programs
