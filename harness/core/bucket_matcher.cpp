#include "harness/core/bucket_matcher.h"

#include "harness/core/text.h"

#include <algorithm>

namespace lockstep {

namespace {

std::string text_of(const BucketLayout& layout, size_t bucket) {
  constexpr size_t kNamesMost = 3;
  auto names = layout.buckets[bucket].parameters;
  const size_t left_out = names.size() - std::min(names.size(), kNamesMost);
  names.resize(names.size() - left_out);
  return "bucket " + std::to_string(bucket) + " of " + std::to_string(layout.buckets.size()) +
         ": " + joined(names, ", ") +
         (left_out == 0 ? "" : " and " + std::to_string(left_out) + " more");
}

}  // namespace

void BucketMatcher::use(const BucketLayout& layout) {
  layout_ = layout;
  next_ = 0;
}

std::string BucketMatcher::match(const Collective& issued) {
  if (issued.op != "allreduce") return "";
  const size_t count = layout_.buckets.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t at = (next_ + i) % count;
    if (layout_.buckets[at].elements != issued.elements) continue;
    next_ = (at + 1) % count;
    return text_of(layout_, at);
  }
  return "";
}

}  // namespace lockstep
