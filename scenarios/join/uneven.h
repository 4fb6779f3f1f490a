// The shape Uneven: ranks with unequally many inputs in a join that throws.
#pragma once

#include "scenarios/cases/options.h"
#include "scenarios/cases/training.h"

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::scenarios::join_uneven_inputs_are_reported {

struct Uneven {
  WorldSpec world;
  std::vector<int> inputs;   // rank r has inputs[r], read cyclically; empty: two each
  int micro_batches = 1;     // inputs whose gradients add up before each reduction
  bool normalises = false;   // a SyncBatchNorm parallel to the network; needs two samples a batch
  bool joins_again = false;  // the window behind the join is in another one
  bool probes = false;       // each input is taken without gradients first, in training mode
  NetworkSpec network;
  int batch_log2 = 1;
  std::vector<int> shares;  // as a Training's
  WrapOptions options;
  Dtype dtype = Dtype::float32;
  Values values = Values::exact;
  uint64_t seed = 0;
  auto operator<=>(const Uneven&) const = default;
  std::string unmet_precondition() const { return why_ranks_begin_apart(options); }
  static constexpr auto fields() {
    return std::tuple{field("world", &Uneven::world),
                      field("inputs", &Uneven::inputs, between(0, 100)),
                      field("micro_batches", &Uneven::micro_batches, between(1, 64)),
                      field("normalises", &Uneven::normalises),
                      field("joins_again", &Uneven::joins_again),
                      field("probes", &Uneven::probes),
                      field("network", &Uneven::network),
                      field("batch_log2", &Uneven::batch_log2, between(1, 20)),
                      field("shares", &Uneven::shares, between(0, 1000)),
                      field("options", &Uneven::options),
                      field("dtype", &Uneven::dtype, kSingleOrDouble),
                      field("values", &Uneven::values),
                      field("seed", &Uneven::seed)};
  }
};

inline int inputs_of(const Uneven& c, int rank) {
  return c.inputs.empty() ? 2 : c.inputs[static_cast<size_t>(rank) % c.inputs.size()];
}

// How many inputs every rank has at least.
inline int common_inputs(const Uneven& c) {
  int least = inputs_of(c, 0);
  for (int rank = 1; rank < c.world.size; ++rank) least = std::min(least, inputs_of(c, rank));
  return least;
}

inline int whole_windows(const Uneven& c) {
  return common_inputs(c) / c.micro_batches;
}

// The windows that all ranks have in common, and one after the join.
inline Training training_of(const Uneven& c) {
  return {.world = {.size = c.world.size},
          .steps = whole_windows(c) + 1,
          .network = c.network,
          .batch_log2 = c.batch_log2,
          .shares = c.shares,
          .micro_batches = c.micro_batches,
          .options = c.options,
          .dtype = c.dtype,
          .values = c.values,
          .seed = c.seed};
}

}  // namespace lockstep::scenarios::join_uneven_inputs_are_reported
