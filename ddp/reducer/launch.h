#pragma once

#include "ddp/comm/communicator.h"
#include "ddp/reducer/layout.h"

#include <cstddef>
#include <vector>

namespace lockstep {

// Launches the buckets of one backward pass strictly in the order of the plan: a bucket that is
// complete early waits for the ones before it. Gradients may arrive in a different order on each
// rank, and collectives are matched by order alone, so this order makes ranks add the same bucket.
// The last bucket also waits until it is released, when the pass has ended. Works are kept until
// they are waited for.
//
// Source: c10d's Reducer, "launch strictly in bucket order"; docs/semantics.md 2.3.
class BucketLauncher {
 public:
  // Both outlive this object.
  BucketLauncher(std::vector<BucketPayload>& payloads, Communicator& communicator)
      : payloads_(payloads),
        communicator_(communicator),
        is_ready_(payloads.size(), false),
        is_skipped_(payloads.size(), false) {}

  // The bucket is packed. Issues collectives in the order of the plan, so every rank must come to
  // it: starts the sum of every bucket that is next in order. Does not block. Throws
  // CommunicationError.
  void bucket_ready(std::size_t bucket_index);

  // The pass has ended, and all buckets are packed: starts the remaining sums. As above.
  void release_last();

  // No rank needs this bucket in this pass. Called on all ranks, before it is ready; never for the
  // last one.
  void skip(std::size_t bucket_index) { is_skipped_.at(bucket_index) = true; }
  bool is_skipped(std::size_t bucket_index) const { return is_skipped_.at(bucket_index); }

  // Waits for all dense sums, in order. Blocks; throws CommunicationError.
  void wait_for_all();

  bool has_launched() const { return next_ > 0; }
  bool has_launched_all() const { return next_ == payloads_.size(); }

 private:
  void launch_up_to(std::size_t end);
  void launch(std::size_t bucket_index);

  std::vector<BucketPayload>& payloads_;
  Communicator& communicator_;
  std::vector<bool> is_ready_;
  std::vector<bool> is_skipped_;
  std::size_t next_ = 0;             // the next bucket to launch
  std::vector<Operation> launched_;  // of dense ones, in bucket order
};

}  // namespace lockstep
