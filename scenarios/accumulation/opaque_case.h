// The cases of accumulation.opaque_outputs_decide_once: lists of acts, and what each act does.
#pragma once

#include "harness/base/case.h"
#include "harness/worlds/options.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace lockstep::scenarios::accumulation_opaque_outputs {

// Forwards are `opaque` or `seen`, in no_sync `opaque_local` or `seen_local`, or have no backward:
// `without_gradients`, or `detached`, whose output is seen and has no graph. Backwards are of the
// `oldest` or the `newest` forward that had none yet, or of the `bare` module.
enum class Act {
  opaque,
  opaque_local,
  seen,
  seen_local,
  without_gradients,
  detached,
  oldest,
  newest,
  bare
};
using Acts = std::vector<Act>;

struct Opaque {
  WorldSpec world;
  Acts acts;  // empty: an opaque forward and its backward
  WrapOptions options;
  uint64_t seed = 0;
  auto operator<=>(const Opaque&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Opaque::world), field("acts", &Opaque::acts),
                      field("options", &Opaque::options), field("seed", &Opaque::seed)};
  }
};

// A step of a case: a forward, or the backward of the graph that act `graph` made.
struct Step {
  size_t graph = 0;
  bool is_backward = false, is_bare = false, is_reduced = false;
};

// The outputs of a forward are of a type into which the subject can look.
bool is_seen(Act act);

// The acts of a case, at least one pass of the bare module among them, so that a last forward that
// still decides shows; and their steps.
Acts acts_of(const Opaque& c);
std::vector<Step> steps_of(const Opaque& c);

}  // namespace lockstep::scenarios::accumulation_opaque_outputs
