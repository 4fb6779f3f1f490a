#include "ddp/reducer/launch.h"

#include <torch/torch.h>

#include <string>

namespace lockstep {

void BucketLauncher::launch_up_to(std::size_t end) {
  for (; next_ < end && is_ready_[next_]; ++next_) {
    if (!is_skipped_[next_]) launch(next_);
  }
}

// The bucket is full, and all before it have been launched: the place of a communication hook,
// which starts something else instead (docs/decisions/0011-a-backward-pass-is-an-object.md).
void BucketLauncher::launch(std::size_t bucket_index) {
  if (auto* const bucket = std::get_if<Bucket>(&payloads_[bucket_index])) {
    bucket->settle();
    launched_.push_back(communicator_.start_sum(
        bucket->flat(), "all-reduce of gradient bucket " + std::to_string(bucket_index)));
  } else {
    std::get<SparseSum>(payloads_[bucket_index]).start(communicator_, bucket_index);
  }
}

void BucketLauncher::bucket_ready(std::size_t bucket_index) {
  is_ready_.at(bucket_index) = true;
  launch_up_to(payloads_.size() - 1);
}

void BucketLauncher::release_last() {
  launch_up_to(payloads_.size());
}

void BucketLauncher::wait_for_all() {
  for (Operation& operation : launched_) communicator_.wait(operation);
}

}  // namespace lockstep
