// The shape Shrinking: a training in a join, whose ranks run out of inputs one after the other and
// from then on shadow their peers' collectives.
#pragma once

#include "harness/core/scenario.h"
#include "scenarios/cases/training.h"

namespace lockstep::scenarios {

struct Shrinking {
  WorldSpec world;
  std::vector<int> inputs;        // rank r has inputs[r], read cyclically; empty: two each
  std::string divides = "world";  // by the world size, or ("live") by how many have inputs
  std::string optimizer = "none";
  int learning_rate_log2 = 0;
  NetworkSpec network;
  int batch_log2 = 0;
  std::vector<int> shares;  // as a Training's
  WrapOptions options;
  std::string dtype = "float32";
  uint64_t seed = 0;
  auto operator<=>(const Shrinking&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Shrinking::world),
                      field("inputs", &Shrinking::inputs, between(0, 100)),
                      field("divides", &Shrinking::divides, one_of("world|live")),
                      field("optimizer", &Shrinking::optimizer, one_of("none|sgd")),
                      field("learning_rate_log2", &Shrinking::learning_rate_log2, between(-20, 20)),
                      field("network", &Shrinking::network),
                      field("batch_log2", &Shrinking::batch_log2, between(0, 20)),
                      field("shares", &Shrinking::shares, between(0, 1000)),
                      field("options", &Shrinking::options),
                      field("dtype", &Shrinking::dtype, one_of("float32|float64")),
                      field("seed", &Shrinking::seed)};
  }
};

int inputs_of(const Shrinking& c, int rank);
int steps_of(const Shrinking& c);
std::vector<int> ranks_with_inputs(const Shrinking& c, int step);

// The highest of the ranks that made the last step; without a step the highest of all.
int last_to_join(const Shrinking& c);

// The network and its data, for one step more than the join has. Parameters are not updated.
Training training_of(const Shrinking& c);

// The number of samples in every rank's counters, if forwards begin with the counters of the
// highest rank that has inputs.
std::vector<int64_t> samples_counted(const Shrinking& c);

}  // namespace lockstep::scenarios
