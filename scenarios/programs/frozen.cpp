#include "scenarios/programs/frozen.h"

#include <algorithm>

namespace lockstep::scenarios::programs {

bool means_something_unnoted(Op op) {
  return !is_backward(op) && op != Op::grad && op != Op::bare && op != Op::throw_ &&
         op != Op::renew && op != Op::convert;
}

bool means_something_broken(Op op) {
  return means_something_unnoted(op) && op != Op::forward && op != Op::evaluate &&
         op != Op::infer && op != Op::tell && !is_freeze(op);
}

FrozenLayers::FrozenLayers(const ProgramSpec& c, int model) {
  for (const auto& layer : layers_of(c, model))
    layers_.push_back({.weight_of = layer.tied ? layers_.back().weight_of : layers_.size(),
                       .weight_is_frozen = layer.frozen != FrozenPart::none,
                       .bias_is_frozen = layer.frozen == FrozenPart::all,
                       .has_bias = layer.kind == LayerKind::linear,
                       .is_replicated = layer.travels != Travels::not_,
                       .is_delayed = layer.travels == Travels::last});
  note();
}

void FrozenLayers::freeze(size_t layer, bool is_frozen) {
  layers_[layers_[layer].weight_of].weight_is_frozen = is_frozen;
  layers_[layer].bias_is_frozen = is_frozen;
}

bool FrozenLayers::train_without(uint32_t left_out) const {
  for (size_t i = 0; i < std::min<size_t>(layers_.size(), 30); ++i)
    if ((left_out >> i) % 2 == 0 && !has_frozen_weight(i)) return true;
  return false;
}

std::vector<bool> FrozenLayers::seen() const {
  std::vector<bool> out;
  for (size_t i = 0; i < layers_.size(); ++i) {
    out.push_back(layers_[i].is_replicated && has_frozen_weight(i));
    out.push_back(layers_[i].is_replicated && layers_[i].has_bias && layers_[i].bias_is_frozen);
  }
  return out;
}

}  // namespace lockstep::scenarios::programs
