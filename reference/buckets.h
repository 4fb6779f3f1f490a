// Puts gradients into buckets, from the definition: docs/semantics.md 2.2. Kind by kind and
// bucket by bucket, without an index of what is open.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::reference {

struct TravellingGradient {
  int64_t bytes = 0;
  int kind = 0;  // gradients of two kinds never share a bucket
  bool is_sparse = false;
  bool is_delayed = false;
};

// In launch order; each the numbers of its gradients, in the order in which they lie in it.
using Buckets = std::vector<std::vector<size_t>>;

// Those of the first pass: one for each kind or, with `caps` (bytes of the first bucket, the
// second, ...; the last repeats), filled in the order of the list. Buckets with the gradients that
// are listed first are launched last.
Buckets first_buckets(const std::vector<TravellingGradient>& gradients,
                      const std::vector<int64_t>& caps);

// Those after it, of gradients that arrived in this order, in which one may occur several times and
// counts as the last time. One that did not arrive comes behind all others.
Buckets rebuilt_buckets(const std::vector<TravellingGradient>& gradients,
                        const std::vector<int64_t>& caps, const std::vector<size_t>& arrivals);

int64_t bytes_in(const std::vector<size_t>& bucket,
                 const std::vector<TravellingGradient>& gradients);

}  // namespace lockstep::reference
