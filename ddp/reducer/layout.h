#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/reducer/bucket.h"
#include "ddp/reducer/parameters.h"
#include "ddp/reducer/sparse_sum.h"

#include <cstddef>
#include <variant>
#include <vector>

namespace lockstep {

// The payload of one collective: many dense gradients, or one sparse gradient.
using BucketPayload = std::variant<Bucket, SparseSum>;

// A bucket plan and the memory of its buckets, which pass after pass works on. Local.
struct Layout {
  Layout(BucketPlan wanted, const Parameters& parameters, BucketOptions options);

  // Lays the buckets out by another plan. Gradients that are views move along. After an exception
  // this object is of no use.
  void rebuild(BucketPlan wanted, const Parameters& parameters, BucketOptions options);

  struct Place {
    std::size_t payload = 0;
    std::size_t slot = 0;
  };
  BucketPlan plan;
  std::vector<BucketPayload> payloads;  // one for each bucket of the plan
  std::vector<Place> places;            // by gradient
};

}  // namespace lockstep
