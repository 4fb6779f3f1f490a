// The names in the options of a replica of the model.
#include "scenarios/programs/layers.h"

namespace lockstep::scenarios::programs {

WrapOptions LayeredModel::options(WrapOptions given) const {
  given.ignored = ignored_buffers_;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto& layer = layers_[i];
    const bool is_delayed = layer.spec.travels == Travels::last && layer.delays;
    auto& names = is_delayed ? given.delayed : given.ignored;
    if (layer.spec.travels != Travels::not_ && !is_delayed) continue;
    // One name of a weight delays it under all of them.
    const bool is_last_name =
        i + 1 == layers_.size() || !layers_[i + 1].spec.tied || !layers_[i + 1].delays;
    if (!is_delayed || is_last_name) names.push_back(layer.weight_name);
    if (layer.bias.defined()) names.push_back(layer.bias_name);
  }
  if (!given.delayed.empty()) given.delayed_until = "first";
  if (!given.bucket_caps_bytes.empty()) given.bucket_cap_bytes = 0;  // one or the other
  return given;
}

}  // namespace lockstep::scenarios::programs
