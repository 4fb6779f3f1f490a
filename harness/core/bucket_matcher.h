// Which collectives of a rank are buckets of its subject's layout.
#pragma once

#include "harness/core/history.h"

#include <string>

namespace lockstep {

// Is shown a rank's layouts and collectives in the order in which they were recorded.
class BucketMatcher {
 public:
  void use(const BucketLayout& layout);

  // "bucket 1 of 2: w, b" for an all-reduce that carries as much as a bucket: the first such bucket
  // from the one behind the last match on, round and round. One that was left out is passed over,
  // unless the next one is as large. Empty for anything else.
  std::string match(const Collective& issued);

 private:
  BucketLayout layout_;
  size_t next_ = 0;
};

}  // namespace lockstep
