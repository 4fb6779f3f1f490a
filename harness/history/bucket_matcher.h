// Finds which collectives of a rank are buckets of its subject's layout.
#pragma once

#include "harness/history/history.h"

#include <map>
#include <optional>
#include <vector>

namespace lockstep {

// Call it with a rank's layouts and collectives in the order in which they were recorded.
class BucketMatcher {
 public:
  void use(const BucketLayout& layout);

  // For an all-reduce with as many elements as a bucket: the first such bucket after the last
  // match, cyclically. One that was left out is skipped, unless the next one is as large. Empty for
  // anything else.
  std::optional<BucketOfLayout> match(const Collective& issued);

 private:
  std::vector<BucketOfLayout> buckets_;
  std::map<int64_t, std::vector<size_t>> by_size_;  // the buckets of so many elements, in order
  size_t next_ = 0;
};

}  // namespace lockstep
