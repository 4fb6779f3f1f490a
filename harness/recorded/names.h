// The names that recorders give to what they record: "optimizer 0", "model 1". docs/protocol.md,
// section 5, lists them.
#pragma once

#include <string_view>

namespace lockstep::recorded {

inline bool is_model(std::string_view name) {
  return name.starts_with("model ");
}

inline bool is_optimizer(std::string_view name) {
  return name.starts_with("optimizer ");
}

// A copy of a model: a teacher, or an average of weights.
inline bool is_copy(std::string_view name) {
  return name.starts_with("copy ");
}

inline bool is_loader(std::string_view name) {
  return name.starts_with("loader ");
}

inline bool is_sampler(std::string_view name) {
  return name.starts_with("sampler ");
}

}  // namespace lockstep::recorded
