#include "scenarios/join/shrinking.h"

#include <algorithm>

namespace lockstep::scenarios {

int inputs_of(const Shrinking& c, int rank) {
  return c.inputs.empty() ? 2 : c.inputs[static_cast<size_t>(rank) % c.inputs.size()];
}

int steps_of(const Shrinking& c) {
  int most = 0;
  for (int rank = 0; rank < c.world.size; ++rank) most = std::max(most, inputs_of(c, rank));
  return most;
}

std::vector<int> ranks_with_inputs(const Shrinking& c, int step) {
  std::vector<int> out;
  for (int rank = 0; rank < c.world.size; ++rank)
    if (inputs_of(c, rank) > step) out.push_back(rank);
  return out;
}

Training training_of(const Shrinking& c) {
  return {.world = {.size = c.world.size},
          .steps = steps_of(c) + 1,
          .network = c.network,
          .batch_log2 = c.batch_log2,
          .shares = c.shares,
          .options = c.options,
          .dtype = c.dtype,
          .seed = c.seed};
}

int last_to_join(const Shrinking& c) {
  return ranks_with_inputs(c, steps_of(c) - 1).back();
}

std::vector<int64_t> samples_counted(const Shrinking& c) {
  std::vector<int64_t> by_rank(static_cast<size_t>(c.world.size), 0);
  for (int s = 0; s < steps_of(c); ++s) {
    const auto ranks = ranks_with_inputs(c, s);
    if (c.options.broadcast_buffers)
      by_rank.assign(by_rank.size(), by_rank[static_cast<size_t>(ranks.back())]);
    for (const int rank : ranks) {
      const auto part = part_of_batch(training_of(c), rank);
      by_rank[static_cast<size_t>(rank)] += part.end - part.begin;
    }
  }
  return by_rank;
}

}  // namespace lockstep::scenarios
