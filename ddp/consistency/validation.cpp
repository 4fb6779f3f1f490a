#include "ddp/consistency/validation.h"

#include "ddp/base/disagreement.h"
#include "ddp/consistency/rank_description.h"

#include <ATen/MemoryOverlap.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

namespace {

using Options = DistributedDataParallelOptions;
using Names = std::vector<std::string>;

bool is_ignored(const Options& options, const std::string& name) {
  const Names& names = options.parameters_and_buffers_to_ignore;
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<std::string> validation_error_in_cap(const std::string& name, double cap_mb) {
  if (std::isfinite(cap_mb) && cap_mb >= 0.0 && cap_mb <= 1e9) return std::nullopt;
  return name + " is " + exact_text(cap_mb) + ", expected 0 to 1e9";
}

std::optional<std::string> validation_error_in(const Options& options) {
  if (options.timeout && options.timeout->count() <= 0) {
    return "timeout is " + std::to_string(options.timeout->count()) +
           " ms, expected a positive time";
  }
  if (options.forward_sync_buffers && options.broadcast_buffers &&
      *options.forward_sync_buffers != *options.broadcast_buffers) {
    return "forward_sync_buffers and broadcast_buffers, its old name, are given and differ";
  }
  if (options.check_replicas_every < 0) {
    return "check_replicas_every is " + std::to_string(options.check_replicas_every) +
           ", expected at least 0";
  }
  if (auto validation_error =
          validation_error_in_cap("broadcast_cap_mb", options.broadcast_cap_mb)) {
    return validation_error;
  }
  if (options.bucket_cap_mb && !options.bucket_cap_mb_list.empty()) {
    return "bucket_cap_mb and bucket_cap_mb_list are given, expected one of them";
  }
  if (auto validation_error =
          validation_error_in_cap("bucket_cap_mb", options.bucket_cap_mb.value_or(0.0))) {
    return validation_error;
  }
  for (const double cap : options.bucket_cap_mb_list) {
    if (auto validation_error = validation_error_in_cap("a cap in bucket_cap_mb_list", cap))
      return validation_error;
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

// A name that matches nothing is a typing error, and training would continue without its effect.
std::optional<std::string> validation_error_in_names(const torch::nn::Module& module,
                                                     const Options& options) {
  std::map<std::string, bool> trainable;  // by name of a parameter that is not ignored
  std::set<std::string> all;
  for (const auto& each : module.named_parameters()) {
    all.insert(each.key());
    if (is_ignored(options, each.key())) continue;
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

std::optional<std::string> validation_error_in(const std::string& subject, const std::string& name,
                                               const at::Tensor& tensor,
                                               const Communicator& communicator) {
  const std::string prefix = subject + " '" + name + "' ";
  if (tensor.device().is_meta()) return prefix + "is on the meta device and has no values yet";
  if (!communicator.carries(tensor.device().type())) {
    return prefix + "is on " + tensor.device().str() + ", for which the process group (" +
           communicator.backend_name() + ") has no backend";
  }
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    return prefix + "has elements that share memory (expanded?), which cannot be written";
  }
  if (tensor.layout() != at::kStrided) {
    return prefix + "has layout " + c10::str(tensor.layout()) + "; this version needs dense ones";
  }
  return std::nullopt;
}

std::optional<std::string> validation_error_in_dtype(const TrainableParameter& each) {
  const at::ScalarType dtype = each.tensor.scalar_type();
  for (const auto supported :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kComplexDouble}) {
    if (dtype == supported) return std::nullopt;
  }
  return "parameter '" + each.name + "' has dtype " + c10::toString(dtype) +
         "; gradients of Float, Double, Half, BFloat16, ComplexFloat and ComplexDouble are "
         "averaged";
}

// Parameters may be on several devices of one kind: a module split over them.
std::optional<std::string> validation_error_in_devices(const ModuleState& state) {
  if (state.trainable.empty()) return std::nullopt;
  std::vector<NamedTensor> all = state.frozen;
  for (const auto& each : state.trainable) all.push_back({each.name, each.tensor});
  const auto& first = state.trainable.front();
  for (const NamedTensor& each : all) {
    if (each.tensor.device().type() == first.tensor.device().type()) continue;
    return "parameter '" + first.name + "' is on " + first.tensor.device().str() + " and '" +
           each.name + "' on " + each.tensor.device().str() + ", expected devices of one kind";
  }
  return std::nullopt;
}

std::optional<std::string> validation_error_in(const ModuleState& state,
                                               const Communicator& communicator) {
  for (const auto& each : state.trainable) {
    if (auto validation_error =
            validation_error_in("parameter", each.name, each.tensor, communicator)) {
      return validation_error;
    }
    if (auto validation_error = validation_error_in_dtype(each)) return validation_error;
  }
  if (auto validation_error = validation_error_in_devices(state)) return validation_error;
  for (const auto& each : state.frozen) {
    if (auto validation_error =
            validation_error_in("parameter", each.name, each.tensor, communicator)) {
      return validation_error;
    }
  }
  for (const auto& each : state.buffers) {
    if (auto validation_error =
            validation_error_in("buffer", each.name, each.tensor, communicator)) {
      return validation_error;
    }
  }
  if (state.trainable.empty()) {
    return "the module has no parameter that requires a gradient and is not ignored";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_validation_error(const torch::nn::Module& module,
                                                 const Options& options,
                                                 const Communicator& communicator) {
  if (auto validation_error = validation_error_in(options)) return validation_error;
  if (auto validation_error = validation_error_in_names(module, options)) return validation_error;
  return validation_error_in(state_of(module, options), communicator);
}

}  // namespace lockstep
