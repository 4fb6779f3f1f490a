#include "ddp/bucket_plan/readiness.h"

#include <stdexcept>
#include <string>

namespace lockstep {

Readiness::Readiness(const BucketPlan& plan) {
  for (const PlannedBucket& bucket : plan) {
    pending_count_.push_back(bucket.gradients.size());
    missing_count_ += bucket.gradients.size();
  }
  ready_.assign(missing_count_, false);
  bucket_of_.resize(missing_count_);
  for (std::size_t index = 0; index < plan.size(); ++index) {
    for (const std::size_t gradient : plan[index].gradients) bucket_of_.at(gradient) = index;
  }
}

std::optional<std::size_t> Readiness::mark_ready(std::size_t gradient_index) {
  if (ready_.at(gradient_index)) {
    throw std::logic_error("gradient " + std::to_string(gradient_index) +
                           " became ready twice in one backward pass");
  }
  ready_[gradient_index] = true;
  --missing_count_;
  const std::size_t bucket = bucket_of_[gradient_index];
  if (--pending_count_[bucket] > 0) return std::nullopt;
  return bucket;
}

std::vector<std::size_t> Readiness::missing() const {
  std::vector<std::size_t> indices;
  for (std::size_t index = 0; index < ready_.size(); ++index) {
    if (!ready_[index]) indices.push_back(index);
  }
  return indices;
}

}  // namespace lockstep
