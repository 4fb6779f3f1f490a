// The shape Drawing: what a training does between two numbers of a rank's generator.
#pragma once

#include "harness/base/case.h"
#include "harness/base/fields.h"

#include <vector>

namespace lockstep::scenarios::random_generators_are_left_alone {

// Something that a training does.
enum class Act {
  wrap,   // wraps the model, once more
  step,   // a synchronised forward and backward
  local,  // the same inside no_sync
  mask,   // the program draws a mask, for dropout
  epoch,  // draws all samples of an epoch
  split,  // splits the dataset at random
  sum,    // sums a number over the ranks
  check,  // compares the replicas
  save,   // saves a checkpoint
  load,   // loads it
};

struct Drawing {
  WorldSpec world;
  std::vector<Act> acts;
  int64_t length = 1;  // samples of the dataset
  int split = 0;       // the number of kSplits
  uint64_t seed = 0;
  auto operator<=>(const Drawing&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Drawing::world), field("acts", &Drawing::acts),
                      field("length", &Drawing::length, between(0, 10'000)),
                      field("split", &Drawing::split, between(0, 10)),
                      field("seed", &Drawing::seed, {}, Cost::numbers)};
  }
};

}  // namespace lockstep::scenarios::random_generators_are_left_alone
