#include "ddp/consistency/rank_description.h"

#include "ddp/consistency/validation.h"

#include <torch/nn/modules/embedding.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace lockstep {

namespace {

using Options = DistributedDataParallelOptions;
using Names = std::vector<std::string>;

bool is_in(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string text_of(at::IntArrayRef numbers) {
  return c10::str(numbers);
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}

std::string text_of(int value) {
  return std::to_string(value);
}

std::string text_of(double value) {
  return exact_text(value);
}

std::string text_of(const std::string& value) {
  return "'" + value + "'";
}

std::string text_of(const std::optional<double>& value) {
  return value ? exact_text(*value) : "unset";
}

std::string text_of(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) text += " " + exact_text(value);
  return text + " ]";
}

// Only the kind: ranks may have different devices of one kind.
std::string kind_of(const c10::Device& device) {
  return c10::DeviceTypeName(device.type(), /*lower_case=*/true);
}

std::string text_of(const Names& names) {
  std::string text = "[";
  for (const std::string& name : names) text += (text.size() > 1 ? ", '" : "'") + name + "'";
  return text + "]";
}

// The parameters whose gradients are sparse, as far as modules declare it.
std::set<const at::TensorImpl*> sparse_weights(const torch::nn::Module& module) {
  std::set<const at::TensorImpl*> found;
  // Through children(): a module that no shared_ptr holds cannot list itself.
  const auto look_at = [&](const torch::nn::Module& each) {
    if (const auto* const embedding = dynamic_cast<const torch::nn::EmbeddingImpl*>(&each)) {
      if (embedding->options.sparse()) found.insert(embedding->weight.unsafeGetTensorImpl());
    }
    if (const auto* const bag = dynamic_cast<const torch::nn::EmbeddingBagImpl*>(&each)) {
      if (bag->options.sparse()) found.insert(bag->weight.unsafeGetTensorImpl());
    }
  };
  look_at(module);
  for (const auto& each : module.modules(false)) look_at(*each);
  return found;
}

// The first name of each tensor: training handles a shared one under that name alone.
using FirstNames = std::map<const at::TensorImpl*, std::string>;

void state_tensor(const std::string& subject, const std::string& name, const at::Tensor& tensor,
                  FirstNames& first_names, std::vector<Property>& properties) {
  const std::string of = " of " + subject + " '" + name + "'";
  properties.push_back({"the shape" + of, text_of(tensor.sizes())});
  properties.push_back({"the dtype" + of, c10::toString(tensor.scalar_type())});
  properties.push_back({"the kind of device" + of, kind_of(tensor.device())});
  const bool is_strided = tensor.layout() == at::kStrided;
  properties.push_back({"the layout" + of, is_strided ? "strides " + text_of(tensor.strides())
                                                      : c10::str(tensor.layout())});
  const std::string& first =
      first_names.try_emplace(tensor.unsafeGetTensorImpl(), name).first->second;
  properties.push_back(
      {"the tensor" + of, first == name ? "one of its own" : "that of '" + first + "'"});
}

void state_parameters(const torch::nn::Module& module, const Options& options,
                      std::vector<Property>& properties) {
  std::vector<NamedTensor> parameters;
  for (const auto& each : module.named_parameters()) {
    if (is_in(options.parameters_and_buffers_to_ignore, each.key())) continue;
    parameters.push_back({each.key(), each.value()});
  }
  properties.push_back({"the number of parameters", std::to_string(parameters.size())});
  const auto sparse = sparse_weights(module);
  std::size_t index = 0;
  FirstNames first_names;
  for (const auto& [name, tensor] : parameters) {
    properties.push_back({"the name of parameter " + std::to_string(index++), "'" + name + "'"});
    state_tensor("parameter", name, tensor, first_names, properties);
    properties.push_back(
        {"requires_grad of parameter '" + name + "'", text_of(tensor.requires_grad())});
    properties.push_back({"the layout of the gradient of '" + name + "'",
                          sparse.contains(tensor.unsafeGetTensorImpl()) ? "sparse" : "dense"});
  }
}

void state_buffers(const torch::nn::Module& module, const Options& options,
                   std::vector<Property>& properties) {
  const auto buffers = buffers_of(module, options);
  properties.push_back({"the number of buffers", std::to_string(buffers.size())});
  std::size_t index = 0;
  FirstNames first_names;
  for (const auto& [name, tensor] : buffers) {
    properties.push_back({"the name of buffer " + std::to_string(index++), "'" + name + "'"});
    state_tensor("buffer", name, tensor, first_names, properties);
  }
}

void state_options(const Options& options, std::vector<Property>& properties) {
  visit_compared_options(options, [&](const std::string& name, const auto& value) {
    properties.push_back({"the option " + name, text_of(value)});
  });
}

}  // namespace

std::vector<at::Tensor> tensors_of(const ModuleState& state) {
  std::vector<at::Tensor> tensors;
  for (const auto& each : state.trainable) tensors.push_back(each.tensor);
  for (const auto& each : state.frozen) tensors.push_back(each.tensor);
  for (const auto& each : state.buffers) tensors.push_back(each.tensor);
  return tensors;
}

std::vector<NamedTensor> buffers_of(const torch::nn::Module& module, const Options& options) {
  std::vector<NamedTensor> buffers;
  for (const auto& each : module.named_buffers()) {
    if (!is_in(options.parameters_and_buffers_to_ignore, each.key())) {
      buffers.push_back({each.key(), each.value()});
    }
  }
  return buffers;
}

ModuleState state_of(const torch::nn::Module& module, const Options& options) {
  ModuleState state{.trainable = {}, .frozen = {}, .buffers = buffers_of(module, options)};
  const auto sparse = sparse_weights(module);
  std::set<const at::TensorImpl*> seen;
  for (const auto& each : module.named_parameters()) {
    const at::TensorImpl* const identity = each.value().unsafeGetTensorImpl();
    if (is_in(options.parameters_and_buffers_to_ignore, each.key())) continue;
    if (!seen.insert(identity).second) continue;
    if (!each.value().requires_grad()) {
      state.frozen.push_back({each.key(), each.value()});
      continue;
    }
    state.trainable.push_back({.name = each.key(),
                               .tensor = each.value(),
                               .sparse = sparse.contains(identity),
                               .delayed = false});
  }
  // A shared parameter is delayed under any of its names.
  const auto parameters = module.named_parameters();
  for (const std::string& name : options.delay_all_reduce_named_params) {
    const at::Tensor* const named = parameters.find(name);
    for (TrainableParameter& each : state.trainable) {
      if (named != nullptr && each.tensor.is_same(*named)) each.delayed = true;
    }
  }
  return state;
}

bool synchronises_buffers(const Options& options) {
  return options.forward_sync_buffers.value_or(options.broadcast_buffers.value_or(true));
}

RankDescription describe_rank(const torch::nn::Module& module, const Options& options,
                              const InstanceNumber& member, const Communicator& communicator) {
  RankDescription description{
      .properties = {}, .validation_error = find_validation_error(module, options, communicator)};
  std::vector<Property>& properties = description.properties;
  state_parameters(module, options, properties);
  state_buffers(module, options, properties);
  state_options(options, properties);
  properties.push_back({"the number of DistributedDataParallel objects that live on the group",
                        std::to_string(member.number())});
  properties.push_back({"the number of DistributedDataParallel objects made on the group before",
                        std::to_string(member.made_before())});
  return description;
}

}  // namespace lockstep
