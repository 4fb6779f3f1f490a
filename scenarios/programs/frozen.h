// Which layers of a model are frozen in the course of a ProgramSpec, and whether its replica knows.
#pragma once

#include "scenarios/programs/case.h"

namespace lockstep::scenarios::programs {

// True if an operation means something before the replica knows what is frozen, and what is not;
// and after it refused a forward, when its peers may have received the error.
bool means_something_unnoted(Op op);
bool means_something_broken(Op op);

class FrozenLayers {
 public:
  FrozenLayers(const ProgramSpec& c, int model);

  size_t count() const { return layers_.size(); }
  // True if some weight is trainable in a forward without these layers, as bits.
  bool train_without(uint32_t left_out) const;
  // True if its gradients travel last, for which it has to be trainable.
  bool is_delayed(size_t layer) const { return layers_[layer].is_delayed; }

  // Weight and bias; layers that share a weight are frozen together.
  void freeze(size_t layer, bool is_frozen);

  // The replica takes note.
  void note() { noted_ = seen(); }
  bool is_noted() const { return noted_ == seen(); }

 private:
  struct Layer {
    size_t weight_of = 0;  // the layer that has its weight
    bool weight_is_frozen = false, bias_is_frozen = false;
    bool has_bias = false, is_replicated = true, is_delayed = false;
  };
  // The parameters that a replica can see: weight and bias of each layer.
  std::vector<bool> seen() const;
  bool has_frozen_weight(size_t layer) const {
    return layers_[layers_[layer].weight_of].weight_is_frozen;
  }

  std::vector<Layer> layers_;
  std::vector<bool> noted_;
};

}  // namespace lockstep::scenarios::programs
