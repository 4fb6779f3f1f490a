#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

// Assigns gradients to buckets: pure functions on sizes, without torch.
//
// A gradient is identified by its index in the list of parameters, which is equal on all ranks.
// Every index of the list is in exactly one bucket, and a bucket holds gradients of one kind. The
// plan depends only on the arguments, so ranks with equal arguments have equal plans.
//
// Everything here is Local and does not block. Source: c10d's compute_bucket_assignment_by_size and
// its constants; docs/semantics.md 2.2.

// One gradient. Gradients of different `kind` (dtype and device) never share a bucket; a sparse
// gradient has a bucket to itself. Delayed gradients are in the last buckets, one for each kind
// whatever the caps.
struct GradientSize {
  std::int64_t element_count = 0;
  std::int64_t element_bytes = 4;
  int kind = 0;
  bool sparse = false;
  bool delayed = false;

  std::int64_t bytes() const { return element_count * element_bytes; }
};

struct PlannedBucket {
  std::vector<std::size_t> gradients;  // indices, in the order in which they lie in the bucket
  std::int64_t bytes = 0;

  bool operator==(const PlannedBucket&) const = default;
};

// In launch order. The collective of a bucket carries `bytes` and one more element: Note [The flag
// in the last bucket] in ddp/reducer/pass_buckets.h.
using BucketPlan = std::vector<PlannedBucket>;

// Caps for bucket_cap_mb in MiB, as PyTorch reads it: unset means a first bucket of 1 MiB and then
// 25 MiB; a value applies to the first bucket too, truncated to whole bytes. A non-empty list takes
// precedence.
std::vector<std::int64_t> bucket_bytes_caps(std::optional<double> bucket_cap_mb,
                                            const std::vector<double>& bucket_cap_mb_list = {});

// Fills buckets in the order of the list, separately for each kind. A bucket is closed by the
// gradient that brings it to its cap or more, so it may exceed its cap by almost one gradient. Each
// kind walks its own copy of `bytes_caps` (not empty), whose last entry repeats. Buckets are sorted
// by their smallest index. Throws std::invalid_argument without caps or with a negative size or
// cap.
BucketPlan assign_buckets(const std::vector<GradientSize>& gradients,
                          const std::vector<std::int64_t>& bytes_caps);

// The same in another order (a permutation of all indices, else std::invalid_argument): buckets in
// the order in which they are closed, then those that are never closed, by their first gradient.
BucketPlan assign_buckets_in_order(const std::vector<GradientSize>& gradients,
                                   const std::vector<std::int64_t>& bytes_caps,
                                   const std::vector<std::size_t>& order);

// The plan of the first synchronised backward pass: one bucket of each kind, the last kind first.
// Its launch order is right whatever order gradients become ready in.
BucketPlan first_plan(const std::vector<GradientSize>& gradients);

// The plan of the first pass if caps apply to it: assign_buckets, the last bucket first.
BucketPlan first_plan(const std::vector<GradientSize>& gradients,
                      const std::vector<std::int64_t>& bytes_caps);

// True if `order` names each of `count` indices once.
bool is_permutation_of(const std::vector<std::size_t>& order, std::size_t count);

}  // namespace lockstep
