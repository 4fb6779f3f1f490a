#include "ddp/launch.h"

#include <torch/torch.h>

#include <string>

namespace lockstep {

void BucketLauncher::bucket_ready(std::size_t bucket_index, const std::vector<Bucket>& buckets,
                                  Communicator& communicator) {
  is_ready_.at(bucket_index) = true;
  while (launched_.size() < buckets.size() && is_ready_[launched_.size()]) {
    const std::size_t next = launched_.size();
    launched_.push_back(communicator.start_sum(
        buckets[next].flat(), "all-reduce of gradient bucket " + std::to_string(next)));
  }
}

void BucketLauncher::wait_for_all(Communicator& communicator) {
  for (Operation& operation : launched_) communicator.wait(operation);
}

void BucketLauncher::reset() {
  is_ready_.assign(is_ready_.size(), false);
  launched_.clear();
}

}  // namespace lockstep
