// The shape Sampling: a dataset is partitioned over the ranks, epoch by epoch.
#pragma once

#include "harness/base/case.h"

namespace lockstep::scenarios {

struct Sampling {
  WorldSpec world;
  int epochs = 1;               // epochs 0, 1, ...
  bool through_loader = false;  // drawn by LibTorch's data loader, which copies its sampler
  bool drop_last = false;       // cut the order to a multiple of the world size instead of padding
  bool pad = true;              // without drop_last: repeat samples; off: draw each once
  bool shuffle = false;
  bool constant_memory = false;  // the shuffled order is computed place by place
  int64_t length = 1;            // samples in the dataset
  int64_t seed = 0;
  int64_t batch_size = 1;  // samples a loader's batch
  auto operator<=>(const Sampling&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Sampling::world),
                      field("epochs", &Sampling::epochs, between(1, 100)),
                      field("through_loader", &Sampling::through_loader),
                      field("drop_last", &Sampling::drop_last),
                      field("pad", &Sampling::pad),
                      field("shuffle", &Sampling::shuffle),
                      field("constant_memory", &Sampling::constant_memory),
                      field("length", &Sampling::length, between(1, 10'000'000)),
                      field("seed", &Sampling::seed, between(0, 1LL << 31), Cost::numbers),
                      field("batch_size", &Sampling::batch_size, at_least(1))};
  }
};

}  // namespace lockstep::scenarios
