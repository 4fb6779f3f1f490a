// The parts that several scenarios need of the options with which a case wraps its model, and what
// such an option usually brings about.
#pragma once

#include "harness/worlds/options.h"

#include <array>
#include <string>

namespace lockstep::scenarios {

// A precondition: each rank builds its model with values of its own.
inline std::string why_ranks_begin_apart(const WrapOptions& options) {
  return options.init_sync ? "" : "the ranks' models differ at the start, so they need init_sync";
}

inline constexpr const char* kConvertedAfterWrapping =
    "a conversion after wrapping (model.to(dtype or device), .half(), .cpu()) gives parameters new "
    "gradient accumulators, and DDP's hooks stay on the old ones: convert, then wrap";

// The usual cause where buffers begin unlike, and where collectives differ; empty: not an option.
inline std::string cause_of_unlike_buffers(const WrapOptions& options) {
  return options.broadcast_buffers
             ? ""
             : "broadcast_buffers=False, with which PyTorch leaves buffers out of the initial "
               "broadcast, too: load the same buffers on every rank, or broadcast them";
}
inline std::string cause_of_mismatch(const WrapOptions& options) {
  return options.skip_all_reduce_unused_params
             ? "skip_all_reduce_unused_params=True, though ranks leave different parameters "
               "unused: one skips a bucket that another sends: leave the option out"
             : "";
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
