#include "ddp/declaration.h"

#include <ATen/MemoryOverlap.h>
#include <torch/nn/modules/embedding.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

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

std::string text_of(double value) {
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}

std::string text_of(const Names& names) {
  std::string text = "[";
  for (const std::string& name : names) text += (text.size() > 1 ? ", '" : "'") + name + "'";
  return text + "]";
}

// Whose gradients are sparse, as far as a module tells.
std::set<const at::TensorImpl*> sparse_weights(const torch::nn::Module& module) {
  std::set<const at::TensorImpl*> found;
  // By children: a module that no shared_ptr holds cannot list itself.
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

void state_tensor(const std::string& subject, const std::string& name, const at::Tensor& tensor,
                  std::vector<Statement>& statements) {
  const std::string of = " of " + subject + " '" + name + "'";
  statements.push_back({"the shape" + of, text_of(tensor.sizes())});
  statements.push_back({"the dtype" + of, c10::toString(tensor.scalar_type())});
  const bool is_strided = tensor.layout() == at::kStrided;
  statements.push_back({"the layout" + of, is_strided ? "strides " + text_of(tensor.strides())
                                                      : c10::str(tensor.layout())});
}

void state_parameters(const torch::nn::Module& module, const Options& options,
                      std::vector<Statement>& statements) {
  std::vector<NamedTensor> parameters;
  for (const auto& each : module.named_parameters()) {
    if (is_in(options.parameters_and_buffers_to_ignore, each.key())) continue;
    parameters.push_back({each.key(), each.value()});
  }
  statements.push_back({"the number of parameters", std::to_string(parameters.size())});
  const auto sparse = sparse_weights(module);
  std::size_t index = 0;
  for (const auto& [name, tensor] : parameters) {
    statements.push_back({"the name of parameter " + std::to_string(index++), "'" + name + "'"});
    state_tensor("parameter", name, tensor, statements);
    statements.push_back(
        {"requires_grad of parameter '" + name + "'", text_of(tensor.requires_grad())});
    statements.push_back({"the layout of the gradient of '" + name + "'",
                          sparse.contains(tensor.unsafeGetTensorImpl()) ? "sparse" : "dense"});
  }
}

void state_buffers(const torch::nn::Module& module, const Options& options,
                   std::vector<Statement>& statements) {
  const auto buffers = buffers_of(module, options);
  statements.push_back({"the number of buffers", std::to_string(buffers.size())});
  std::size_t index = 0;
  for (const auto& [name, tensor] : buffers) {
    statements.push_back({"the name of buffer " + std::to_string(index++), "'" + name + "'"});
    state_tensor("buffer", name, tensor, statements);
  }
}

void state_options(const Options& options, std::vector<Statement>& statements) {
  std::string caps;
  for (const double cap : options.bucket_cap_mb_list) caps += " " + text_of(cap);
  const std::pair<const char*, std::string> values[] = {
      {"init_sync", text_of(options.init_sync)},
      {"forward_sync_buffers", text_of(synchronises_buffers(options))},
      {"buffer_sync_lag", text_of(options.buffer_sync_lag)},
      {"bucket_cap_mb", options.bucket_cap_mb ? text_of(*options.bucket_cap_mb) : "unset"},
      {"bucket_cap_mb_list", "[" + caps + " ]"},
      {"find_unused_parameters", text_of(options.find_unused_parameters)},
      {"gradient_as_bucket_view", text_of(options.gradient_as_bucket_view)},
      {"static_graph", text_of(options.static_graph)},
      {"skip_all_reduce_unused_params", text_of(options.skip_all_reduce_unused_params)},
      {"batched_grad_copy", text_of(options.batched_grad_copy)},
      {"parameters_and_buffers_to_ignore", text_of(options.parameters_and_buffers_to_ignore)},
      {"delay_all_reduce_named_params", text_of(options.delay_all_reduce_named_params)},
      {"param_to_hook_all_reduce", "'" + options.param_to_hook_all_reduce + "'"}};
  for (const auto& [name, value] : values) {
    statements.push_back({std::string("the option ") + name, value});
  }
}

std::optional<std::string> obstacle_in_cap(const std::string& name, double cap_mb) {
  if (std::isfinite(cap_mb) && cap_mb >= 0.0 && cap_mb <= 1e9) return std::nullopt;
  return name + " is " + text_of(cap_mb) + ", expected 0 to 1e9";
}

std::optional<std::string> obstacle_in(const Options& options) {
  if (options.timeout && options.timeout->count() <= 0) {
    return "timeout is " + std::to_string(options.timeout->count()) +
           " ms, expected a positive time";
  }
  if (options.forward_sync_buffers && options.broadcast_buffers &&
      *options.forward_sync_buffers != *options.broadcast_buffers) {
    return "forward_sync_buffers and broadcast_buffers, its old name, are given and differ";
  }
  if (options.bucket_cap_mb && !options.bucket_cap_mb_list.empty()) {
    return "bucket_cap_mb and bucket_cap_mb_list are given, expected one of them";
  }
  if (auto obstacle = obstacle_in_cap("bucket_cap_mb", options.bucket_cap_mb.value_or(0.0))) {
    return obstacle;
  }
  for (const double cap : options.bucket_cap_mb_list) {
    if (auto obstacle = obstacle_in_cap("a cap in bucket_cap_mb_list", cap)) return obstacle;
  }
  if (options.skip_all_reduce_unused_params && !options.find_unused_parameters &&
      !options.static_graph) {
    return "skip_all_reduce_unused_params=true needs find_unused_parameters or static_graph, which "
           "find out what is unused";
  }
  if (options.delay_all_reduce_named_params.empty() != options.param_to_hook_all_reduce.empty()) {
    return "delay_all_reduce_named_params and param_to_hook_all_reduce belong together, and one of "
           "them is not given";
  }
  return std::nullopt;
}

// Names that name nothing are slips of the pen, and training would go on without what they meant.
std::optional<std::string> obstacle_in_names(const torch::nn::Module& module,
                                             const Options& options) {
  std::map<std::string, bool> trainable;  // by name of a parameter that is not ignored
  std::set<std::string> all;
  for (const auto& each : module.named_parameters()) {
    all.insert(each.key());
    if (is_in(options.parameters_and_buffers_to_ignore, each.key())) continue;
    trainable[each.key()] = each.value().requires_grad();
  }
  for (const auto& each : module.named_buffers()) all.insert(each.key());
  for (const std::string& name : options.parameters_and_buffers_to_ignore) {
    if (!all.contains(name)) {
      return "parameters_and_buffers_to_ignore names '" + name +
             "', which is neither a parameter nor a buffer";
    }
  }
  Names delayed = options.delay_all_reduce_named_params;
  if (!delayed.empty()) delayed.push_back(options.param_to_hook_all_reduce);
  for (std::size_t i = 0; i < delayed.size(); ++i) {
    const auto found = trainable.find(delayed[i]);
    if (found != trainable.end() && found->second) continue;
    const bool is_trigger = i + 1 == delayed.size();
    return std::string(is_trigger ? "param_to_hook_all_reduce" : "delay_all_reduce_named_params") +
           " names '" + delayed[i] +
           "', which is no parameter that requires a gradient and is not ignored";
  }
  return std::nullopt;
}

std::optional<std::string> obstacle_in(const std::string& subject, const std::string& name,
                                       const at::Tensor& tensor) {
  const std::string prefix = subject + " '" + name + "' ";
  if (!tensor.device().is_cpu()) {
    return prefix + "is on " + tensor.device().str() + "; this version trains on the CPU";
  }
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    return prefix + "has elements that share memory (expanded?), which cannot be written";
  }
  if (tensor.layout() != at::kStrided) {
    return prefix + "has layout " + c10::str(tensor.layout()) + "; this version needs dense ones";
  }
  return std::nullopt;
}

std::optional<std::string> obstacle_in_dtype(const Reducer::Parameter& each) {
  const at::ScalarType dtype = each.tensor.scalar_type();
  for (const auto supported :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kComplexDouble}) {
    if (dtype == supported) return std::nullopt;
  }
  return "parameter '" + each.name + "' has dtype " + c10::toString(dtype) +
         "; gradients of Float, Double, Half, BFloat16, ComplexFloat and ComplexDouble are "
         "averaged";
}

std::optional<std::string> obstacle_in(const ModuleState& state) {
  for (const auto& each : state.trainable) {
    if (auto obstacle = obstacle_in("parameter", each.name, each.tensor)) return obstacle;
    if (auto obstacle = obstacle_in_dtype(each)) return obstacle;
  }
  for (const auto& each : state.frozen) {
    if (auto obstacle = obstacle_in("parameter", each.name, each.tensor)) return obstacle;
  }
  for (const auto& each : state.buffers) {
    if (auto obstacle = obstacle_in("buffer", each.name, each.tensor)) return obstacle;
  }
  if (state.trainable.empty()) {
    return "the module has no parameter that requires a gradient and is not ignored";
  }
  return std::nullopt;
}

}  // namespace

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
    for (Reducer::Parameter& each : state.trainable) {
      if (named != nullptr && each.tensor.is_same(*named)) each.delayed = true;
    }
  }
  return state;
}

bool synchronises_buffers(const Options& options) {
  if (options.forward_sync_buffers) return *options.forward_sync_buffers;
  return options.broadcast_buffers.value_or(true);
}

Declaration declare(const torch::nn::Module& module, const Options& options,
                    const GroupMember& member) {
  Declaration declaration;
  declaration.obstacle = obstacle_in(options);
  if (!declaration.obstacle) declaration.obstacle = obstacle_in_names(module, options);
  if (!declaration.obstacle) declaration.obstacle = obstacle_in(state_of(module, options));
  std::vector<Statement>& statements = declaration.statements;
  state_parameters(module, options, statements);
  state_buffers(module, options, statements);
  state_options(options, statements);
  statements.push_back({"the number of DistributedDataParallel objects that live on the group",
                        std::to_string(member.number())});
  statements.push_back({"the number of DistributedDataParallel objects made on the group before",
                        std::to_string(member.made_before())});
  return declaration;
}

}  // namespace lockstep
