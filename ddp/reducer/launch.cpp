#include "ddp/reducer/launch.h"

#include <torch/torch.h>

#include <string>

namespace lockstep {

void BucketLauncher::launch_up_to(std::size_t end, std::vector<BucketPayload>& payloads,
                                  Communicator& communicator) {
  for (; next_ < end && is_ready_[next_]; ++next_) {
    if (is_skipped_[next_]) continue;
    if (auto* const bucket = std::get_if<Bucket>(&payloads[next_])) {
      bucket->settle();
      launched_.push_back(communicator.start_sum(
          bucket->flat(), "all-reduce of gradient bucket " + std::to_string(next_)));
    } else {
      std::get<SparseSum>(payloads[next_]).start(communicator, next_);
    }
  }
}

void BucketLauncher::bucket_ready(std::size_t bucket_index, std::vector<BucketPayload>& payloads,
                                  Communicator& communicator) {
  is_ready_.at(bucket_index) = true;
  launch_up_to(payloads.size() - 1, payloads, communicator);
}

void BucketLauncher::release_last(std::vector<BucketPayload>& payloads,
                                  Communicator& communicator) {
  launch_up_to(payloads.size(), payloads, communicator);
}

void BucketLauncher::wait_for_all(Communicator& communicator) {
  for (Operation& operation : launched_) communicator.wait(operation);
}

void BucketLauncher::reset() {
  is_ready_.assign(is_ready_.size(), false);
  is_skipped_.assign(is_skipped_.size(), false);
  next_ = 0;
  launched_.clear();
}

}  // namespace lockstep
