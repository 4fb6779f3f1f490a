// The parameters that a reducer averages: state derived from them, changes that are refused, and
// their replacement.
#include "ddp/errors.h"
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep {

namespace {

// `device_number` counts the module's devices in order of appearance, since ranks may have
// different devices of the same kind.
GradientSize size_of(const Reducer::Parameter& parameter, std::size_t device_number) {
  constexpr int kDtypes = static_cast<int>(c10::ScalarType::NumOptions);
  return {.element_count = parameter.tensor.numel(),
          .element_bytes = static_cast<std::int64_t>(parameter.tensor.element_size()),
          .kind = static_cast<int>(parameter.tensor.scalar_type()) +
                  kDtypes * static_cast<int>(device_number),
          .sparse = parameter.sparse,
          .delayed = parameter.delayed};
}

}  // namespace

// Sets all state that is kept per parameter.
void Reducer::take(std::vector<Parameter> trainable, std::vector<NamedTensor> frozen) {
  parameters_.clear();
  names_.clear();
  sizes_.clear();
  shapes_.clear();
  frozen_ = std::move(frozen);
  std::vector<c10::Device> devices;
  for (Parameter& each : trainable) {
    const auto device = std::find(devices.begin(), devices.end(), each.tensor.device());
    const auto number = static_cast<std::size_t>(device - devices.begin());
    if (device == devices.end()) devices.push_back(each.tensor.device());
    sizes_.push_back(size_of(each, number));
    shapes_.push_back({.sizes = each.tensor.sizes().vec(),
                       .strides = each.tensor.strides().vec(),
                       .device = each.tensor.device(),
                       .dtype = each.tensor.scalar_type()});
    parameters_.push_back(std::move(each.tensor));
    names_.push_back(std::move(each.name));
  }
  const std::size_t count = parameters_.size();
  unused_.assign(count, false);
  reached_locally_.assign(count, false);
  used_.assign(count, false);
  static_graph_ = StaticGraph(count);
  used_somewhere_.assign(count, true);
  streams_ = ArrivalStreams(count);
  arrivals_.clear();
  local_arrivals_.clear();
  is_rebuilt_ = has_outstanding_forward_ = last_forward_decides_ = false;
  pass_count_ = 0;
  layout_ = std::make_unique<Layout>(initial_plan(), parameters_, sizes_, options_.bucket);
}

// Module::to(), torch::load() and set_requires_grad() drop the accumulators that carry our hooks,
// or make gradients without a hook: training would silently continue without averaging. Where the
// parameter is unchanged in the end, it is hooked again.
void Reducer::check_parameters() {
  const std::string rank = "rank " + std::to_string(communicator_->rank()) + ": ";
  if (!hooks_) throw UsageError(rank + "remove_autograd_hooks() was called; wrap the module again");
  if (const auto validation_error = objection_to_freezing())
    throw UsageError(rank + *validation_error);
  if (const auto validation_error = objection_to_tensors())
    throw UsageError(rank + *validation_error);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (hooks_->is_attached(i, parameters_[i])) continue;
    listen();
    return;
  }
}

std::optional<std::string> Reducer::objection_to_tensors() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (parameter.scalar_type() != shapes_[i].dtype || parameter.sizes() != shapes_[i].sizes ||
        parameter.strides() != shapes_[i].strides || parameter.device() != shapes_[i].device) {
      return "parameter '" + names_[i] +
             "' was converted, moved or reshaped after it was wrapped; wrap it again";
    }
  }
  return std::nullopt;
}

std::optional<std::string> Reducer::objection_to_freezing() const {
  const auto validation_error = [](const std::string& name, const char* what) {
    return "parameter '" + name + "' was " + what +
           " after it was wrapped; call update_trainable_parameters() on every rank";
  };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].requires_grad()) return validation_error(names_[i], "frozen");
  }
  for (const NamedTensor& each : frozen_) {
    if (each.tensor.requires_grad()) return validation_error(each.name, "unfrozen");
  }
  return std::nullopt;
}

void Reducer::update_parameters(std::vector<Parameter> trainable, std::vector<NamedTensor> frozen) {
  const std::lock_guard lock(mutex_);
  std::set<const at::TensorImpl*> used;
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) used.insert(parameters_[i].unsafeGetTensorImpl());
  }
  take(std::move(trainable), std::move(frozen));
  for (std::size_t i = 0; i < used_.size(); ++i) {
    used_[i] = used.contains(parameters_[i].unsafeGetTensorImpl());
  }
  listen();
}

}  // namespace lockstep
