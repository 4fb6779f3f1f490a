// The samples that each rank draws in an epoch, from the definition: no torch, no generator object.
//
// Source: torch.utils.data.DistributedSampler and torch.randperm as documented. randperm is a
// Fisher-Yates shuffle on the 32-bit outputs of a Mersenne twister seeded with seed + epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::reference {

struct Epoch {
  int64_t length = 0;  // samples in the dataset, below 2^32
  int world_size = 1;
  bool shuffle = true;
  bool drop_last = false;
  bool pad = true;               // without drop_last; off: the first ranks draw one sample more
  bool constant_memory = false;  // with shuffle: permutation_by_place, not permutation
  int64_t seed = 0;              // of the sampler; the order depends on seed + epoch alone
  int64_t epoch = 0;
};

// torch.randperm(length) with a generator seeded `seed`, bit for bit. `length` below 2^32.
std::vector<int64_t> permutation(int64_t length, uint64_t seed);

// The permutation of docs/semantics.md 4 that is computed place by place.
std::vector<int64_t> permutation_by_place(int64_t length, uint64_t seed);

// The whole epoch in drawing order, padded or cut to a multiple of the world size: padding repeats
// the order from its start as often as needed; dropping cuts its tail.
std::vector<int64_t> global_order(const Epoch& epoch);

// Rank r's samples: elements r, r + W, r + 2W, ... of the global order.
std::vector<int64_t> rank_order(const Epoch& epoch, int rank);

}  // namespace lockstep::reference
