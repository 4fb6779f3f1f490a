#include "ddp/declaration.h"

#include <torch/torch.h>

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep {

namespace {

std::string text_of(at::IntArrayRef numbers) {
  return c10::str(numbers);
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}

std::string text_of(std::optional<double> value) {
  if (!value) return "unset";
  std::ostringstream text;
  text.precision(17);
  text << *value;
  return text.str();
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

void state_parameters(const torch::nn::Module& module, std::vector<Statement>& statements) {
  const auto parameters = module.named_parameters();
  statements.push_back({"the number of parameters", std::to_string(parameters.size())});
  std::size_t index = 0;
  for (const auto& each : parameters) {
    statements.push_back(
        {"the name of parameter " + std::to_string(index++), "'" + each.key() + "'"});
    state_tensor("parameter", each.key(), each.value(), statements);
    statements.push_back(
        {"requires_grad of parameter '" + each.key() + "'", text_of(each.value().requires_grad())});
  }
}

void state_buffers(const torch::nn::Module& module, std::vector<Statement>& statements) {
  const auto buffers = module.named_buffers();
  statements.push_back({"the number of buffers", std::to_string(buffers.size())});
  std::size_t index = 0;
  for (const auto& each : buffers) {
    statements.push_back({"the name of buffer " + std::to_string(index++), "'" + each.key() + "'"});
    state_tensor("buffer", each.key(), each.value(), statements);
  }
}

std::optional<std::string> obstacle_in(const DistributedDataParallelOptions& options) {
  const std::pair<bool, const char*> later[] = {
      {options.find_unused_parameters, "find_unused_parameters"},
      {options.gradient_as_bucket_view, "gradient_as_bucket_view"},
      {options.static_graph, "static_graph"}};
  for (const auto& [wanted, name] : later) {
    if (wanted) return std::string(name) + "=true is not in this version";
  }
  if (options.forward_sync_buffers && options.broadcast_buffers &&
      *options.forward_sync_buffers != *options.broadcast_buffers) {
    return "forward_sync_buffers and broadcast_buffers, its old name, are given and differ";
  }
  const double cap_mb = options.bucket_cap_mb.value_or(0.0);
  if (!std::isfinite(cap_mb) || cap_mb < 0.0 || cap_mb > 1e9) {
    return "bucket_cap_mb is " + text_of(options.bucket_cap_mb) + ", expected 0 to 1e9";
  }
  return std::nullopt;
}

std::optional<std::string> obstacle_in(const std::string& subject, const NamedTensor& each) {
  const at::Tensor& tensor = each.tensor;
  const std::string name = subject + " '" + each.name + "' ";
  if (!tensor.device().is_cpu()) {
    return name + "is on " + tensor.device().str() + "; this version trains on the CPU";
  }
  if (tensor.layout() != at::kStrided) {
    return name + "has layout " + c10::str(tensor.layout()) + "; this version needs dense ones";
  }
  return std::nullopt;
}

std::optional<std::string> obstacle_in_dtype(const NamedTensor& each) {
  const at::ScalarType dtype = each.tensor.scalar_type();
  for (const auto supported : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    if (dtype == supported) return std::nullopt;
  }
  return "parameter '" + each.name + "' has dtype " + c10::toString(dtype) +
         "; this version averages Float, Double, Half and BFloat16";
}

std::optional<std::string> obstacle_in(const torch::nn::Module& module) {
  const Parameters parameters = parameters_of(module);
  for (const auto* list : {&parameters.trainable, &parameters.frozen}) {
    for (const NamedTensor& each : *list) {
      if (auto obstacle = obstacle_in("parameter", each)) return obstacle;
    }
  }
  for (const auto& each : module.named_buffers()) {
    if (auto obstacle = obstacle_in("buffer", {each.key(), each.value()})) return obstacle;
  }
  for (const NamedTensor& each : parameters.trainable) {
    if (auto obstacle = obstacle_in_dtype(each)) return obstacle;
  }
  if (parameters.trainable.empty()) return "the module has no parameter that requires a gradient";
  return std::nullopt;
}

}  // namespace

Parameters parameters_of(const torch::nn::Module& module) {
  Parameters parameters;
  std::set<const at::TensorImpl*> seen;
  for (const auto& each : module.named_parameters()) {
    if (!seen.insert(each.value().unsafeGetTensorImpl()).second) continue;
    auto& list = each.value().requires_grad() ? parameters.trainable : parameters.frozen;
    list.push_back({each.key(), each.value()});
  }
  return parameters;
}

bool synchronises_buffers(const DistributedDataParallelOptions& options) {
  if (options.forward_sync_buffers) return *options.forward_sync_buffers;
  return options.broadcast_buffers.value_or(true);
}

Declaration declare(const torch::nn::Module& module,
                    const DistributedDataParallelOptions& options) {
  Declaration declaration;
  declaration.obstacle = obstacle_in(options);
  if (!declaration.obstacle) declaration.obstacle = obstacle_in(module);
  std::vector<Statement>& statements = declaration.statements;
  state_parameters(module, statements);
  state_buffers(module, statements);
  statements.push_back({"the option init_sync", text_of(options.init_sync)});
  statements.push_back({"the option forward_sync_buffers", text_of(synchronises_buffers(options))});
  statements.push_back({"the option bucket_cap_mb", text_of(options.bucket_cap_mb)});
  return declaration;
}

}  // namespace lockstep
