#include "ddp/reducer/parameters.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

// `device_number` counts the module's devices in order of appearance, since ranks may have
// different devices of the same kind.
GradientSize size_of(const TrainableParameter& parameter, std::size_t device_number) {
  constexpr int kDtypes = static_cast<int>(c10::ScalarType::NumOptions);
  return {.element_count = parameter.tensor.numel(),
          .element_bytes = static_cast<std::int64_t>(parameter.tensor.element_size()),
          .kind = static_cast<int>(parameter.tensor.scalar_type()) +
                  kDtypes * static_cast<int>(device_number),
          .sparse = parameter.sparse,
          .delayed = parameter.delayed};
}

}  // namespace

Parameters::Parameters(std::vector<TrainableParameter> trainable, std::vector<NamedTensor> frozen)
    : frozen_(std::move(frozen)) {
  std::vector<c10::Device> devices;
  for (TrainableParameter& each : trainable) {
    const auto device = std::find(devices.begin(), devices.end(), each.tensor.device());
    const auto number = static_cast<std::size_t>(device - devices.begin());
    if (device == devices.end()) devices.push_back(each.tensor.device());
    sizes_.push_back(size_of(each, number));
    shapes_.push_back({.sizes = each.tensor.sizes().vec(),
                       .strides = each.tensor.strides().vec(),
                       .device = each.tensor.device(),
                       .dtype = each.tensor.scalar_type()});
    tensors_.push_back(std::move(each.tensor));
    names_.push_back(std::move(each.name));
  }
}

std::string Parameters::names_of(const std::vector<std::size_t>& indices) const {
  std::string text;
  for (const std::size_t index : indices) {
    if (!text.empty()) text += ", ";
    text += "'" + names_[index] + "'";
  }
  return text.empty() ? "no parameter" : text;
}

std::optional<std::string> Parameters::changed_tensor() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& parameter = tensors_[i];
    if (parameter.scalar_type() != shapes_[i].dtype || parameter.sizes() != shapes_[i].sizes ||
        parameter.strides() != shapes_[i].strides || parameter.device() != shapes_[i].device) {
      return "parameter '" + names_[i] +
             "' was converted, moved or reshaped after it was wrapped; wrap it again";
    }
  }
  return std::nullopt;
}

std::optional<std::string> Parameters::changed_requires_grad() const {
  const auto was = [](const std::string& name, const char* what) {
    return "parameter '" + name + "' was " + what +
           " after it was wrapped; call update_trainable_parameters() on every rank";
  };
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].requires_grad()) return was(names_[i], "frozen");
  }
  for (const NamedTensor& each : frozen_) {
    if (each.tensor.requires_grad()) return was(each.name, "unfrozen");
  }
  return std::nullopt;
}

}  // namespace lockstep
