#include "ddp/module/registered_tensors.h"

#include <algorithm>

namespace lockstep {

namespace {

// The first name that `names` has and `others` has not.
std::optional<std::string> first_without(const std::vector<std::string>& names,
                                         const std::vector<std::string>& others) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return std::find(others.begin(), others.end(), name) == others.end();
  });
  return found == names.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

RegisteredTensors::RegisteredTensors(const torch::nn::Module& module,
                                     const DistributedDataParallelOptions& options)
    : ignored_(options.parameters_and_buffers_to_ignore),
      parameters_(parameters_of(module)),
      buffers_(buffers_of(module)) {}

void RegisteredTensors::take_parameters(const torch::nn::Module& module) {
  parameters_ = parameters_of(module);
}

bool RegisteredTensors::is_ignored(const std::string& name) const {
  return std::find(ignored_.begin(), ignored_.end(), name) != ignored_.end();
}

std::vector<RegisteredTensors::Parameter> RegisteredTensors::parameters_of(
    const torch::nn::Module& module) const {
  std::vector<Parameter> parameters;
  for (const auto& each : module.named_parameters())
    if (!is_ignored(each.key()))
      parameters.push_back({each.key(), each.value().unsafeGetTensorImpl()});
  return parameters;
}

std::vector<std::string> RegisteredTensors::buffers_of(const torch::nn::Module& module) const {
  std::vector<std::string> names;
  for (const auto& each : module.named_buffers())
    if (!is_ignored(each.key())) names.push_back(each.key());
  return names;
}

// Without a copy of any name: every synchronised forward looks.
bool RegisteredTensors::parameters_are_the_same(const torch::nn::Module& module) const {
  std::size_t count = 0;
  for (const auto& each : module.named_parameters()) {
    if (is_ignored(each.key())) continue;
    if (count == parameters_.size()) return false;
    if (parameters_[count++].identity != each.value().unsafeGetTensorImpl()) return false;
  }
  return count == parameters_.size();
}

bool RegisteredTensors::buffers_are_the_same(const torch::nn::Module& module) const {
  std::size_t count = 0;
  for (const auto& each : module.named_buffers()) {
    if (is_ignored(each.key())) continue;
    if (count == buffers_.size() || buffers_[count++] != each.key()) return false;
  }
  return count == buffers_.size();
}

std::optional<std::string> RegisteredTensors::change(const torch::nn::Module& module) const {
  if (!parameters_are_the_same(module)) return changed_parameter(parameters_of(module));
  if (!buffers_are_the_same(module)) return changed_buffer(buffers_of(module));
  return std::nullopt;
}

std::string RegisteredTensors::changed_parameter(const std::vector<Parameter>& now) const {
  const auto names_of = [](const std::vector<Parameter>& parameters) {
    std::vector<std::string> names;
    for (const Parameter& each : parameters) names.push_back(each.name);
    return names;
  };
  const auto before = names_of(parameters_), after = names_of(now);
  const std::string call = "call update_trainable_parameters() on every rank";
  const std::string cure = "; make it equal on all ranks and " + call;
  if (const auto name = first_without(after, before))
    return "parameter '" + *name + "' was registered after the module was wrapped" + cure;
  if (const auto name = first_without(before, after))
    return "parameter '" + *name + "' was removed after the module was wrapped; " + call;
  for (std::size_t i = 0; i < now.size(); ++i)
    if (now[i].identity != parameters_[i].identity)
      return "parameter '" + now[i].name + "' is another tensor than the one that was wrapped" +
             cure;
  return "parameters have another order than when the module was wrapped; " + call;
}

std::string RegisteredTensors::changed_buffer(const std::vector<std::string>& now) const {
  if (const auto name = first_without(now, buffers_))
    return "buffer '" + *name + "' was registered after the module was wrapped; wrap it again";
  if (const auto name = first_without(buffers_, now))
    return "buffer '" + *name + "' was removed after the module was wrapped; wrap it again";
  return "buffers have another order than when the module was wrapped; wrap it again";
}

}  // namespace lockstep
