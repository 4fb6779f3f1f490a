// The logging data of a reducer.
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

#include <set>

namespace lockstep {

namespace {

std::vector<std::int64_t> sizes_of(const BucketPlan& plan) {
  std::vector<std::int64_t> sizes;
  for (const PlannedBucket& bucket : plan) sizes.push_back(bucket.bytes);
  return sizes;
}

}  // namespace

void Reducer::fill(LoggingData& data) const {
  const std::lock_guard lock(mutex_);
  data.bucket_cap_bytes = options_.bytes_caps;
  data.num_parameter_tensors = static_cast<std::int64_t>(parameters_.size());
  std::set<std::string> dtypes;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    data.total_parameter_size_bytes += sizes_[i].bytes();
    dtypes.emplace(parameters_[i].dtype().name());
  }
  data.dtypes.assign(dtypes.begin(), dtypes.end());
  data.bucket_sizes = sizes_of(constructed_plan_);
  data.iteration = pass_count_;
  data.has_rebuilt_buckets = is_rebuilt_;
  if (is_rebuilt_) {
    data.rebuilt_bucket_sizes = sizes_of(layout_->plan);
    for (const PlannedBucket& bucket : layout_->plan) {
      data.rebuilt_per_bucket_param_indices.push_back(bucket.gradients);
    }
  }
  data.prev_iteration_grad_ready_order_indices = arrivals_;
  data.unused_parameter_size = unused_bytes_;
  data.num_buckets_reduced = buckets_reduced_;
  data.error = last_error_;
  times_.fill(data);
}

}  // namespace lockstep
