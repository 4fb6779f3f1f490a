#pragma once

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

// Note [Where a module can be replaced]
// replace_module() changes only the list of children that parameters(), to() and save() go through:
// a class still calls its typed member, and a Sequential the list that its forward runs. So a
// module can be replaced only where the caller's pointer can be changed: in Sequential, ModuleList
// and ModuleDict, whose own lists have iterators; and then in both lists.

// One place of a module in a tree.
struct Place {
  enum class Kind {
    kElement,       // of a Sequential, ModuleList or ModuleDict, and registered there
    kMember,        // registered, and called by its parent's own code; the root has no parent
    kUnregistered,  // an element that is not registered, such as after ModuleList::insert
  };
  std::string path;  // "features.1"; "" for the root
  Kind kind = Kind::kMember;
  std::string parent_type;  // "" for the root
};

struct PlacedModule {
  std::shared_ptr<torch::nn::Module> module;
  std::vector<Place> places;  // one for each parent that has it, and more if it has it twice
};

// Every module of the tree once, parents first, in order of registration. Local.
std::vector<PlacedModule> modules_in(const std::shared_ptr<torch::nn::Module>& root);

// Replaces elements that are BatchNorm1d to 3d or SyncBatchNorm, in the containers' own lists and
// in their registries; keys and order stay. Local.
using Replacements = std::map<const torch::nn::Module*, std::shared_ptr<torch::nn::Module>>;
void replace_elements(const std::vector<PlacedModule>& tree, const Replacements& replacements);

}  // namespace lockstep
