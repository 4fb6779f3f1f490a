// The shape Joined: a training over uneven inputs whose parameters sharded optimizers share.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/options.h"
#include "scenarios/cases/words.h"

#include <algorithm>
#include <vector>

namespace lockstep::scenarios::join {

struct Joined {
  WorldSpec world;
  std::vector<int> inputs;             // of rank r, read cyclically; empty: one each
  JoinKind divisor = JoinKind::world;  // of sums of gradients: the world's size, or who has inputs
  OptimizerKind optimizer = OptimizerKind::sgd;
  int optimizers = 1;        // that share the parameters: number p is that of p modulo optimizers
  bool steps_twice = false;  // after each pass
  // Sums over the ranks that the program forms in each step, the first before the forward; at the
  // join's end the last rank's total is sent to all.
  int own_sums = 0;
  bool gradient_as_bucket_view = false;
  int64_t bucket_cap_bytes = 0;
  std::vector<int> sizes;  // elements of each parameter; empty: one of one element
  uint64_t seed = 0;
  auto operator<=>(const Joined&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Joined::world),
        field("inputs", &Joined::inputs, between(0, 12)),
        field("divisor", &Joined::divisor, one_of<JoinKind::world, JoinKind::live>),
        field("optimizer", &Joined::optimizer,
              one_of<OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam,
                     OptimizerKind::adamw, OptimizerKind::amsgrad, OptimizerKind::rmsprop>),
        field("optimizers", &Joined::optimizers, between(1, 4)),
        field("steps_twice", &Joined::steps_twice),
        field("own_sums", &Joined::own_sums, between(0, 4)),
        field("gradient_as_bucket_view", &Joined::gradient_as_bucket_view),
        field("bucket_cap_bytes", &Joined::bucket_cap_bytes, at_least(0)),
        field("sizes", &Joined::sizes, between(1, 4096)),
        field("seed", &Joined::seed, {}, Cost::numbers)};
  }
};

inline int inputs_of(const Joined& c, int rank) {
  return c.inputs.empty() ? 1 : c.inputs[static_cast<size_t>(rank) % c.inputs.size()];
}

// The steps inside the join; the one behind it has this number.
inline int joined_steps(const Joined& c) {
  int most = 0;
  for (int rank = 0; rank < c.world.size; ++rank) most = std::max(most, inputs_of(c, rank));
  return most;
}

inline bool has_input(const Joined& c, int step, int rank) {
  return step == joined_steps(c) || step < inputs_of(c, rank);
}

// The highest rank that had inputs last.
inline int last_to_join(const Joined& c) {
  int last = c.world.size - 1;
  for (int rank = 0; rank < c.world.size && joined_steps(c) > 0; ++rank)
    if (inputs_of(c, rank) == joined_steps(c)) last = rank;
  return last;
}

inline int divisor_in(const Joined& c, int step) {
  if (c.divisor == JoinKind::world) return c.world.size;
  int count = 0;
  for (int rank = 0; rank < c.world.size; ++rank) count += has_input(c, step, rank) ? 1 : 0;
  return count;
}

}  // namespace lockstep::scenarios::join
