#include "ddp/module/registered_tensors.h"

#include <algorithm>

namespace lockstep {

namespace {

// Module::named_parameters() makes a dictionary of all names, which takes a tenth of the forward of
// a model of many small layers. This is the dictionary that each module has.
struct OpenModule : torch::nn::Module {
  static const torch::OrderedDict<std::string, at::Tensor>& parameters_in(
      const torch::nn::Module& module) {
    return module.*(&OpenModule::parameters_);
  }
};

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
      buffers_(buffers_of(module)),
      seen_(look_at(module)) {}

void RegisteredTensors::take_parameters(const torch::nn::Module& module) {
  parameters_ = parameters_of(module);
  seen_.parameters = look_at(module).parameters;
}

RegisteredTensors::Look RegisteredTensors::look_at(const torch::nn::Module& root) {
  Look look;
  const torch::nn::Module::ConstModuleApplyFunction add = [&look](const torch::nn::Module& module) {
    for (const auto& each : OpenModule::parameters_in(module))
      look.parameters.push_back(each.value().unsafeGetTensorImpl());
    for (const auto& each : module.named_buffers(/*recurse=*/false))
      look.buffers.push_back(each.key());
  };
  root.apply(add);
  return look;
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

void RegisteredTensors::require_unchanged(const torch::nn::Module& module, int rank) const {
  if (look_at(module) == seen_) return;
  const std::string who = "rank " + std::to_string(rank) + ": ";
  if (const auto change = changed_parameter(parameters_of(module))) throw UsageError(who + *change);
  if (const auto change = changed_buffer(buffers_, buffers_of(module)))
    throw ChangedBuffers(who + *change);
}

std::optional<std::string> RegisteredTensors::changed_parameter(
    const std::vector<Parameter>& now) const {
  if (now == parameters_) return std::nullopt;
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

std::optional<std::string> changed_buffer(const std::vector<std::string>& before,
                                          const std::vector<std::string>& now) {
  if (now == before) return std::nullopt;
  if (const auto name = first_without(now, before))
    return "buffer '" + *name + "' was registered after the module was wrapped; wrap it again";
  if (const auto name = first_without(before, now))
    return "buffer '" + *name + "' was removed after the module was wrapped; wrap it again";
  return "buffers have another order than when the module was wrapped; wrap it again";
}

}  // namespace lockstep
