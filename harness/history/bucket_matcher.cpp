#include "harness/history/bucket_matcher.h"

#include <algorithm>

namespace lockstep {

void BucketMatcher::use(const BucketLayout& layout) {
  buckets_.clear();
  by_size_.clear();
  next_ = 0;
  for (size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) {
    buckets_.push_back({bucket, layout.buckets.size(), layout.buckets[bucket].parameters});
    by_size_[layout.buckets[bucket].elements].push_back(bucket);
  }
}

std::optional<BucketOfLayout> BucketMatcher::match(const Collective& issued) {
  const auto found = by_size_.find(issued.elements);
  if (issued.op != "allreduce" || found == by_size_.end()) return {};
  const auto& as_large = found->second;
  const auto behind = std::lower_bound(as_large.begin(), as_large.end(), next_);
  const size_t bucket = behind == as_large.end() ? as_large.front() : *behind;
  next_ = bucket + 1;
  return buckets_[bucket];
}

}  // namespace lockstep
