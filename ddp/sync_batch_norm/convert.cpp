#include "ddp/convert_sync_batchnorm.h"
#include "ddp/errors.h"
#include "ddp/sync_batch_norm.h"
#include "ddp/sync_batch_norm/module_tree.h"
#include "ddp/sync_batch_norm/parts.h"

#include <torch/nn/modules/instancenorm.h>

#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using ModulePtr = std::shared_ptr<torch::nn::Module>;
using Sentences = std::vector<std::string>;

std::string quoted(const std::string& path) {
  return path.empty() ? "the model itself" : "'" + path + "'";
}

template <class... Layers>
bool is_one_of(const torch::nn::Module& module) {
  return ((dynamic_cast<const Layers*>(&module) != nullptr) || ...);
}

// True for classes derived from LibTorch's layers, and for modules with the buffers of a BatchNorm.
bool normalises_batches(const torch::nn::Module& module) {
  using namespace torch::nn;  // NOLINT(google-build-using-namespace): six names of one kind
  if (is_one_of<InstanceNorm1dImpl, InstanceNorm2dImpl, InstanceNorm3dImpl>(module)) return false;
  if (is_one_of<BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl>(module)) return true;
  const auto buffers = module.named_buffers(/*recurse=*/false);
  return buffers.contains("running_mean") && buffers.contains("running_var") &&
         buffers.contains("num_batches_tracked");
}

// Adds an error for each place where the module cannot be replaced.
void object_to_places(const PlacedModule& placed, const std::string& remedy,
                      Sentences& validation_errors) {
  for (const Place& place : placed.places) {
    if (place.kind == Place::Kind::kUnregistered) {
      validation_errors.push_back(quoted(place.path) +
                                  " is called by its container and not registered there, as after "
                                  "replace_module or ModuleList::insert");
    } else if (place.kind == Place::Kind::kMember && !place.parent_type.empty()) {
      validation_errors.push_back(quoted(place.path) + " is a member of " + place.parent_type +
                                  remedy);
    }
  }
}

// The layers of a model to convert or revert, and why some cannot be.
struct Layers {
  std::vector<PlacedModule> tree;
  std::vector<std::pair<LayerOverRanks*, std::string>> ours;  // with their paths
  std::vector<const PlacedModule*> to_replace;
  Sentences validation_errors;
};

void look_at_to_convert(const PlacedModule& placed, Layers& layers) {
  torch::nn::Module& module = *placed.module;
  const std::string& path = placed.places.front().path;
  const auto check = [&](const BatchNormSettings& settings) {
    if (const auto validation_error = validation_error_in(settings))
      layers.validation_errors.push_back(quoted(path) + ": " + *validation_error);
  };
  if (auto* const ours = dynamic_cast<LayerOverRanks*>(&module)) {
    const auto* const sync = dynamic_cast<SyncBatchNormImpl*>(&module);
    if (sync != nullptr && !sync->stands_for()) return;
    check(ours->settings());
    layers.ours.emplace_back(ours, path);
  } else if (const auto parts = parts_of(module)) {
    const std::string name = "BatchNorm" + std::to_string(parts->dimension) + "d";
    check(parts->settings);
    object_to_places(placed,
                     ", whose pointer to its torch::nn::" + name +
                         " nobody can change: declare it there as lockstep::" + name,
                     layers.validation_errors);
    layers.to_replace.push_back(&placed);
  } else if (normalises_batches(module)) {
    layers.validation_errors.push_back(
        quoted(path) + " is a " + c10::demangle(typeid(module).name()) +
        ", which may do anything in forward: put a lockstep::BatchNorm1d, "
        "2d or 3d there, or derive it from one's Impl");
  }
}

void look_at_to_revert(const PlacedModule& placed, Layers& layers) {
  auto* const ours = dynamic_cast<LayerOverRanks*>(placed.module.get());
  if (ours == nullptr) return;
  const std::string& path = placed.places.front().path;
  const auto* const sync = dynamic_cast<SyncBatchNormImpl*>(ours);
  if (sync == nullptr) {
    layers.ours.emplace_back(ours, path);
  } else if (!sync->stands_for()) {
    layers.validation_errors.push_back(quoted(path) +
                                       " is a SyncBatchNorm that never was a BatchNorm");
  } else {
    object_to_places(placed, ", whose pointer to it nobody can change", layers.validation_errors);
    layers.to_replace.push_back(&placed);
  }
}

// Finds all errors before anything is changed.
template <class LookAt>
Layers layers_of(const ModulePtr& model, const std::string& what, LookAt look_at) {
  if (!model) throw UsageError(what + ": the model is null");
  Layers layers;
  layers.tree = modules_in(model);
  for (const PlacedModule& placed : layers.tree) look_at(placed, layers);
  if (layers.validation_errors.empty()) return layers;
  std::string sentence = what + " changed nothing: ";
  for (const std::string& each : layers.validation_errors) {
    sentence += (&each == &layers.validation_errors.front() ? "" : "; ") + each;
  }
  throw UsageError(sentence);
}

ModulePtr replaced(const ModulePtr& model, const Layers& layers, const Replacements& replacements) {
  replace_elements(layers.tree, replacements);
  const auto found = replacements.find(model.get());
  return found == replacements.end() ? model : found->second;
}

}  // namespace

ModulePtr convert_sync_batchnorm(const ModulePtr& model,
                                 c10::intrusive_ptr<c10d::ProcessGroup> group,
                                 std::optional<std::chrono::milliseconds> timeout) {
  if (!group) {
    throw UsageError(
        "convert_sync_batchnorm: the group is null, expected that of the ranks that train "
        "together");
  }
  // Validates the group and the timeout before anything is changed, also for a model without
  // layers.
  const BatchNormOverRanks usable(group, timeout);
  Layers layers = layers_of(model, "convert_sync_batchnorm", look_at_to_convert);
  Replacements replacements;
  for (const PlacedModule* const placed : layers.to_replace) {
    const auto made = SyncBatchNormImpl::in_place_of(placed->module);
    replacements[placed->module.get()] = made;
    layers.ours.emplace_back(made.get(), placed->places.front().path);
  }
  for (const auto& [layer, path] : layers.ours) layer->train_over(group, timeout, path);
  return replaced(model, layers, replacements);
}

ModulePtr revert_sync_batchnorm(const ModulePtr& model) {
  const Layers layers = layers_of(model, "revert_sync_batchnorm", look_at_to_revert);
  Replacements replacements;
  for (const PlacedModule* const placed : layers.to_replace) {
    const auto before = dynamic_cast<const SyncBatchNormImpl&>(*placed->module).stands_for();
    before->train(placed->module->is_training());
    replacements[placed->module.get()] = before;
  }
  for (const auto& [layer, path] : layers.ours) layer->train_alone();
  return replaced(model, layers, replacements);
}

}  // namespace lockstep
