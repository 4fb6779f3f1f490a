// The shape Windows: a join in which ranks run out of micro-batches within a window.
#pragma once

#include "harness/base/case.h"
#include "harness/base/fields.h"

#include <vector>

namespace lockstep::scenarios::join_leftovers_stay {

struct Windows {
  WorldSpec world;
  int window = 1;           // micro-batches
  std::vector<int> inputs;  // micro-batches of rank r, read cyclically; empty: one window each
  bool steps_in_backward = true;  // or the program does, on ranks that have inputs
  uint64_t seed = 0;
  auto operator<=>(const Windows&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Windows::world),
                      field("window", &Windows::window, between(1, 8)),
                      field("inputs", &Windows::inputs, between(0, 40)),
                      field("steps_in_backward", &Windows::steps_in_backward),
                      field("seed", &Windows::seed, {}, Cost::numbers)};
  }
};

inline int inputs_of(const Windows& c, int rank) {
  return c.inputs.empty() ? c.window : c.inputs[static_cast<size_t>(rank) % c.inputs.size()];
}

}  // namespace lockstep::scenarios::join_leftovers_stay
