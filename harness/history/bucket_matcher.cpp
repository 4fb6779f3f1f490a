#include "harness/history/bucket_matcher.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep {

namespace {

std::string text_of(const BucketLayout& layout, size_t bucket) {
  constexpr size_t kNamesMost = 3;
  const auto& all = layout.buckets[bucket].parameters;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(all.size(), kNamesMost); ++i) names.push_back(excerpt(all[i]));
  return "bucket " + std::to_string(bucket) + " of " + std::to_string(layout.buckets.size()) +
         ": " + joined(names, ", ") +
         (all.size() > kNamesMost ? " and " + std::to_string(all.size() - kNamesMost) + " more"
                                  : "");
}

}  // namespace

void BucketMatcher::use(const BucketLayout& layout) {
  texts_.clear();
  by_size_.clear();
  next_ = 0;
  for (size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) {
    texts_.push_back(text_of(layout, bucket));
    by_size_[layout.buckets[bucket].elements].push_back(bucket);
  }
}

std::string BucketMatcher::match(const Collective& issued) {
  const auto found = by_size_.find(issued.elements);
  if (issued.op != "allreduce" || found == by_size_.end()) return "";
  const auto& buckets = found->second;
  const auto behind = std::lower_bound(buckets.begin(), buckets.end(), next_);
  const size_t bucket = behind == buckets.end() ? buckets.front() : *behind;
  next_ = bucket + 1;
  return texts_[bucket];
}

}  // namespace lockstep
