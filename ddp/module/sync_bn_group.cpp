#include "ddp/module/sync_bn_group.h"

#include "ddp/errors.h"
#include "ddp/sync_batch_norm.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace lockstep {

namespace {

struct NamedLayer {
  std::string name;
  LayerOverRanks* layer = nullptr;
};

// The layers that currently train over ranks. A layer registered twice has its first name.
std::vector<NamedLayer> layers_in(const torch::nn::Module& module) {
  std::vector<NamedLayer> all;
  if (auto* const root = dynamic_cast<LayerOverRanks*>(const_cast<torch::nn::Module*>(&module)))
    all.push_back({"", root});
  for (const auto& each : module.named_modules("", /*include_self=*/false)) {
    if (auto* const layer = dynamic_cast<LayerOverRanks*>(each.value().get()))
      all.push_back({each.key(), layer});
  }
  std::erase_if(all, [](const NamedLayer& each) { return !each.layer->trains_over_ranks(); });
  return all;
}

// Empty where the backend cannot split groups.
std::optional<Communicator> part_of(Communicator& whole, const std::string& name) {
  try {
    return whole.split(name);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

}  // namespace

std::string text_of_layers_over_ranks(const torch::nn::Module& module,
                                      const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  std::string text;
  for (const NamedLayer& each : layers_in(module)) {
    if (!text.empty()) text += ", ";
    text += "'" + each.name + "'";
    if (each.layer->over_ranks()->group() != group) text += " over a group of its own";
  }
  return text.empty() ? "none" : text;
}

bool assign_sync_bn_group(const torch::nn::Module& module,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& before,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& now,
                          Communicator& communicator, const std::string& name,
                          const std::shared_ptr<FailureNotice>& notice) {
  const std::vector<NamedLayer> all = layers_in(module);
  std::vector<BatchNormOverRanks*> taken;
  for (const NamedLayer& each : all) {
    each.layer->name_if_nameless(each.name);
    auto* const layer = each.layer->over_ranks();
    if (layer->group() == now || (before && layer->group() == before)) taken.push_back(layer);
  }
  if (!taken.empty()) {
    const bool is_alone = communicator.world_size() == 1;
    const auto part = is_alone ? std::optional(communicator) : part_of(communicator, name);
    for (BatchNormOverRanks* const layer : taken) {
      if (part) layer->rebind(now, *part);
    }
  }
  for (const NamedLayer& each : all) each.layer->over_ranks()->watch(notice);
  return !all.empty();
}

bool some_layer_is_in_training_over_ranks(const torch::nn::Module& module) {
  const std::vector<NamedLayer> all = layers_in(module);
  return std::any_of(all.begin(), all.end(), [](const NamedLayer& each) {
    const auto* const as_module = dynamic_cast<const torch::nn::Module*>(each.layer);
    return as_module != nullptr && as_module->is_training();
  });
}

bool has_sync_batch_norm(const torch::nn::Module& module) {
  const auto is_one = [](const torch::nn::Module& each) {
    return dynamic_cast<const SyncBatchNormImpl*>(&each) != nullptr;
  };
  if (is_one(module) || !layers_in(module).empty()) return true;
  const auto modules = module.modules(/*include_self=*/false);
  return std::any_of(modules.begin(), modules.end(),
                     [&](const auto& each) { return is_one(*each); });
}

}  // namespace lockstep
