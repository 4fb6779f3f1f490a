// The shape Averaged: forwards of a model whose buffers a hook averages; and what its buffers hold.
#pragma once

#include "harness/cases/scenario.h"

#include <vector>

namespace lockstep::scenarios::averaged_buffers {

enum class Place { before_forward, after_forward };

enum class Forward { synced, throws, no_sync, no_grad, eval };

struct Averaged {
  WorldSpec world;
  Place place = Place::before_forward;
  // Forwards: in training and synchronised, the same with an exception at its end, inside no_sync,
  // without gradients, in evaluation mode. Empty: one `synced`.
  std::vector<Forward> forwards;
  bool buffer_sync_lag = true;
  // Rank r makes the first inputs[r] of them, read cyclically, in a join, and all ranks make one
  // more behind it, a `synced` one. Empty: all, without a join.
  std::vector<int> inputs;
  auto operator<=>(const Averaged&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Averaged::world), field("place", &Averaged::place),
                      field("forwards", &Averaged::forwards),
                      field("buffer_sync_lag", &Averaged::buffer_sync_lag),
                      field("inputs", &Averaged::inputs, between(0, 100))};
  }
};

// With the one behind a join.
std::vector<Forward> forwards_of(const Averaged& c);
bool is_behind_the_join(const Averaged& c, size_t forward);
bool makes(const Averaged& c, int rank, size_t forward);

// The averaged buffers begin with a number beside which float32 would round what is added.
inline constexpr double kStart = 0x1p30;

int64_t added(size_t forward, int rank);

// The values that each rank's buffers hold.
struct State {
  std::vector<double> means;
  std::vector<int64_t> counts;
};

struct Followed {
  std::vector<State> in, after;  // by forward
  State joined;                  // at the end of a join
};

enum class Mistake { none, never, other_place, in_every_forward, broadcast };

Followed followed(const Averaged& c, Mistake mistake = Mistake::none);

}  // namespace lockstep::scenarios::averaged_buffers
