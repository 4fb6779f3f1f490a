#include "ddp/sync_batch_norm/module_tree.h"

#include "ddp/sync_batch_norm.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <cstddef>
#include <typeinfo>
#include <utility>

namespace lockstep {

namespace {

using ModulePtr = std::shared_ptr<torch::nn::Module>;

struct Element {
  std::string key;
  ModulePtr module;
};

// The modules that a container runs; none for a module that is no container.
std::vector<Element> elements_of(torch::nn::Module& parent) {
  std::vector<Element> out;
  const auto next_index = [&] { return std::to_string(out.size()); };
  if (auto* const sequential = dynamic_cast<torch::nn::SequentialImpl*>(&parent)) {
    for (const torch::nn::AnyModule& each : *sequential) out.push_back({next_index(), each.ptr()});
  } else if (auto* const list = dynamic_cast<torch::nn::ModuleListImpl*>(&parent)) {
    for (const ModulePtr& each : *list) out.push_back({next_index(), each});
  } else if (auto* const dict = dynamic_cast<torch::nn::ModuleDictImpl*>(&parent)) {
    for (const auto& each : *dict) out.push_back({each.key(), each.value()});
  }
  return out;
}

class Walk {
 public:
  void enter(const ModulePtr& module, Place place) {
    if (!module) return;
    const auto at = found_.try_emplace(module.get(), out.size());
    if (at.second) out.push_back({module, {}});
    const std::string path = place.path;
    out[at.first->second].places.push_back(std::move(place));
    if (at.second) enter_children(*module, path.empty() ? "" : path + ".");
  }

  std::vector<PlacedModule> out;

 private:
  void enter_children(torch::nn::Module& parent, const std::string& prefix) {
    using Kind = Place::Kind;
    const std::vector<Element> elements = elements_of(parent);
    const auto children = parent.named_children();
    const std::string type = c10::demangle(typeid(parent).name());
    for (const auto& child : children) {
      const bool is_element =
          std::any_of(elements.begin(), elements.end(),
                      [&](const Element& each) { return each.module == child.value(); });
      enter(child.value(),
            {prefix + child.key(), is_element ? Kind::kElement : Kind::kMember, type});
    }
    for (const Element& each : elements) {
      const bool is_registered =
          std::any_of(children.begin(), children.end(),
                      [&](const auto& child) { return child.value() == each.module; });
      if (!is_registered) enter(each.module, {prefix + each.key, Kind::kUnregistered, type});
    }
  }

  std::map<const torch::nn::Module*, std::size_t> found_;  // index in out
};

// An AnyModule calls the forward of the static type that it is made of.
template <class Layer>
bool put(const ModulePtr& module, torch::nn::AnyModule& into) {
  const auto layer = std::dynamic_pointer_cast<Layer>(module);
  if (layer) into = torch::nn::AnyModule(layer);
  return layer != nullptr;
}

void put_layer(const ModulePtr& module, torch::nn::AnyModule& into) {
  const bool done = put<SyncBatchNormImpl>(module, into) ||
                    put<torch::nn::BatchNorm1dImpl>(module, into) ||
                    put<torch::nn::BatchNorm2dImpl>(module, into) ||
                    put<torch::nn::BatchNorm3dImpl>(module, into);
  TORCH_INTERNAL_ASSERT(done);
}

void replace_in_list(torch::nn::Module& parent, const Replacements& replacements) {
  const auto replace = [&](ModulePtr& each) {
    const auto found = replacements.find(each.get());
    if (found != replacements.end()) each = found->second;
  };
  if (auto* const sequential = dynamic_cast<torch::nn::SequentialImpl*>(&parent)) {
    for (torch::nn::AnyModule& each : *sequential) {
      const auto found = replacements.find(each.ptr().get());
      if (found != replacements.end()) put_layer(found->second, each);
    }
  } else if (auto* const list = dynamic_cast<torch::nn::ModuleListImpl*>(&parent)) {
    for (ModulePtr& each : *list) replace(each);
  } else if (auto* const dict = dynamic_cast<torch::nn::ModuleDictImpl*>(&parent)) {
    for (auto& each : *dict) replace(each.value());
  }
}

}  // namespace

std::vector<PlacedModule> modules_in(const ModulePtr& root) {
  Walk walk;
  walk.enter(root, {});
  return std::move(walk.out);
}

void replace_elements(const std::vector<PlacedModule>& tree, const Replacements& replacements) {
  for (const PlacedModule& parent : tree) {
    replace_in_list(*parent.module, replacements);
    for (const auto& child : parent.module->named_children()) {
      const auto found = replacements.find(child.value().get());
      if (found != replacements.end()) parent.module->replace_module(child.key(), found->second);
    }
  }
}

}  // namespace lockstep
