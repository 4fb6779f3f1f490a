#pragma once

#include "ddp/bucket.h"
#include "ddp/communicator.h"

#include <cstddef>
#include <vector>

namespace lockstep {

// Sends the buckets of one backward pass on their way, strictly in the order of the plan: a bucket
// that is complete early waits for the ones before it. Gradients may come in another order on each
// rank, and collectives pair up by order alone, so this order is what makes ranks add the same
// bucket. Works are kept until they are waited for.
//
// Source: c10d's Reducer, "launch strictly in bucket order"; docs/semantics.md 2.3.
class BucketLauncher {
 public:
  explicit BucketLauncher(std::size_t bucket_count) : is_ready_(bucket_count, false) {}

  // The bucket is packed. Collective in effect: starts the sum of every bucket whose turn has come.
  // Does not block. Throws CommunicationError.
  void bucket_ready(std::size_t bucket_index, const std::vector<Bucket>& buckets,
                    Communicator& communicator);

  // Waits for all that was launched, in order. Blocks; throws CommunicationError.
  void wait_for_all(Communicator& communicator);

  // For the next backward pass. Nothing may be under way.
  void reset();

 private:
  std::vector<bool> is_ready_;
  std::vector<Operation> launched_;  // in bucket order
};

}  // namespace lockstep
