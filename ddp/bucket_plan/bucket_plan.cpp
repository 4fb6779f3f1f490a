#include "ddp/bucket_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

namespace lockstep {

namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::int64_t kFirstBucketBytesCap = kMebibyte;
constexpr std::int64_t kBucketBytesCap = 25 * kMebibyte;

// The bucket that gradients of one kind are filling.
struct OpenBucket {
  PlannedBucket bucket;
  std::size_t cap_index = 0;
  std::size_t opened_at = 0;  // position in the order of its first gradient
};

void check_sizes(const std::vector<GradientSize>& gradients,
                 const std::vector<std::int64_t>& bytes_caps) {
  if (bytes_caps.empty()) throw std::invalid_argument("a bucket plan needs at least one cap");
  for (const std::int64_t cap : bytes_caps) {
    if (cap < 0) {
      throw std::invalid_argument("bucket cap of " + std::to_string(cap) +
                                  " bytes: expected 0 or more");
    }
  }
  for (const GradientSize& gradient : gradients) {
    if (gradient.element_count < 0 || gradient.element_bytes < 1) {
      throw std::invalid_argument("gradient of " + std::to_string(gradient.element_count) +
                                  " elements of " + std::to_string(gradient.element_bytes) +
                                  " bytes");
    }
  }
}

void append_leftovers(std::map<int, OpenBucket>& open, BucketPlan& plan) {
  std::vector<OpenBucket*> leftovers;
  for (auto& [kind, filling] : open) {
    if (!filling.bucket.gradients.empty()) leftovers.push_back(&filling);
  }
  std::sort(leftovers.begin(), leftovers.end(),
            [](const OpenBucket* a, const OpenBucket* b) { return a->opened_at < b->opened_at; });
  for (OpenBucket* filling : leftovers) plan.push_back(std::move(filling->bucket));
}

BucketPlan fill(const std::vector<GradientSize>& gradients,
                const std::vector<std::int64_t>& bytes_caps,
                const std::vector<std::size_t>& order) {
  BucketPlan plan;
  std::map<int, OpenBucket> open;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const std::size_t index = order[position];
    const GradientSize& gradient = gradients[index];
    if (gradient.delayed) continue;
    if (gradient.sparse) {
      plan.push_back({{index}, gradient.bytes()});
      continue;
    }
    OpenBucket& filling = open[gradient.kind];
    if (filling.bucket.gradients.empty()) filling.opened_at = position;
    filling.bucket.gradients.push_back(index);
    filling.bucket.bytes += gradient.bytes();
    if (filling.bucket.bytes < bytes_caps[filling.cap_index]) continue;
    plan.push_back(std::move(filling.bucket));
    filling.bucket = {};
    filling.cap_index = std::min(filling.cap_index + 1, bytes_caps.size() - 1);
  }
  append_leftovers(open, plan);
  return plan;
}

BucketPlan in_order_of_index(const std::vector<GradientSize>& gradients,
                             const std::vector<std::int64_t>& bytes_caps) {
  check_sizes(gradients, bytes_caps);
  std::vector<std::size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  BucketPlan plan = fill(gradients, bytes_caps, order);
  // Filled in ascending order, so a bucket's first index is its smallest.
  std::sort(plan.begin(), plan.end(), [](const PlannedBucket& a, const PlannedBucket& b) {
    return a.gradients.front() < b.gradients.front();
  });
  return plan;
}

BucketPlan with_delayed(BucketPlan plan, const std::vector<GradientSize>& gradients) {
  std::map<int, PlannedBucket> by_kind;
  for (std::size_t index = 0; index < gradients.size(); ++index) {
    const GradientSize& gradient = gradients[index];
    if (!gradient.delayed) continue;
    if (gradient.sparse) {
      plan.push_back({{index}, gradient.bytes()});
      continue;
    }
    by_kind[gradient.kind].gradients.push_back(index);
    by_kind[gradient.kind].bytes += gradient.bytes();
  }
  for (auto& [kind, bucket] : by_kind) plan.push_back(std::move(bucket));
  return plan;
}

std::int64_t bytes_of(double mebibytes) {
  const double bytes = mebibytes * static_cast<double>(kMebibyte);
  if (!(bytes >= 0.0) || bytes >= 9.0e18) {
    throw std::invalid_argument("a bucket cap of " + std::to_string(mebibytes) +
                                " MiB: expected 0 or more");
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

std::vector<std::int64_t> bucket_bytes_caps(std::optional<double> bucket_cap_mb,
                                            const std::vector<double>& bucket_cap_mb_list) {
  if (!bucket_cap_mb_list.empty()) {
    std::vector<std::int64_t> caps;
    for (const double each : bucket_cap_mb_list) caps.push_back(bytes_of(each));
    return caps;
  }
  if (!bucket_cap_mb) return {kFirstBucketBytesCap, kBucketBytesCap};
  return {bytes_of(*bucket_cap_mb)};
}

bool is_permutation_of(const std::vector<std::size_t>& order, std::size_t count) {
  if (order.size() != count) return false;
  std::vector<bool> seen(count, false);
  for (const std::size_t index : order) {
    if (index >= count || seen[index]) return false;
    seen[index] = true;
  }
  return true;
}

BucketPlan assign_buckets(const std::vector<GradientSize>& gradients,
                          const std::vector<std::int64_t>& bytes_caps) {
  return with_delayed(in_order_of_index(gradients, bytes_caps), gradients);
}

BucketPlan assign_buckets_in_order(const std::vector<GradientSize>& gradients,
                                   const std::vector<std::int64_t>& bytes_caps,
                                   const std::vector<std::size_t>& order) {
  check_sizes(gradients, bytes_caps);
  if (!is_permutation_of(order, gradients.size())) {
    throw std::invalid_argument("the order of a bucket plan must name each of " +
                                std::to_string(gradients.size()) + " gradients once");
  }
  return with_delayed(fill(gradients, bytes_caps, order), gradients);
}

BucketPlan first_plan(const std::vector<GradientSize>& gradients) {
  return first_plan(gradients, {std::numeric_limits<std::int64_t>::max()});
}

BucketPlan first_plan(const std::vector<GradientSize>& gradients,
                      const std::vector<std::int64_t>& bytes_caps) {
  BucketPlan plan = in_order_of_index(gradients, bytes_caps);
  std::reverse(plan.begin(), plan.end());
  return with_delayed(std::move(plan), gradients);
}

}  // namespace lockstep
