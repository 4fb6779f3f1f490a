// The parts that several scenarios need of the options with which a case wraps its model.
#pragma once

#include "harness/worlds/options.h"

#include <array>
#include <string>

namespace lockstep::scenarios {

// A precondition: each rank builds its model with values of its own.
inline std::string why_ranks_begin_apart(const WrapOptions& options) {
  return options.init_sync ? "" : "the ranks' models differ at the start, so they need init_sync";
}

// The bytes of a message in which state travels: the subject's own number, or, by every second
// `seed`, one that some tensors fill, as if the model were as many times larger.
constexpr int64_t message_bytes(uint64_t seed) {
  constexpr std::array<int64_t, 8> kCaps{0, 1, 0, 8, 0, 40, 0, 100};
  return kCaps[seed % kCaps.size()];
}

inline WrapOptions in_messages(WrapOptions options, int64_t bytes) {
  options.further.broadcast_cap_bytes = bytes;
  return options;
}

}  // namespace lockstep::scenarios
