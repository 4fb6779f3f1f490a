#pragma once

#include "ddp/communicator.h"
#include "ddp/reducer/bucket.h"
#include "ddp/reducer/sparse_sum.h"

#include <cstddef>
#include <variant>
#include <vector>

namespace lockstep {

// What travels together: many dense gradients, or one sparse one.
using Load = std::variant<Bucket, SparseSum>;

// Sends the buckets of one backward pass on their way, strictly in the order of the plan: a bucket
// that is complete early waits for the ones before it. Gradients may come in another order on each
// rank, and collectives pair up by order alone, so this order is what makes ranks add the same
// bucket. The last bucket waits besides until it is released, when the pass has ended. Works are
// kept until they are waited for.
//
// Source: c10d's Reducer, "launch strictly in bucket order"; docs/semantics.md 2.3.
class BucketLauncher {
 public:
  explicit BucketLauncher(std::size_t bucket_count)
      : is_ready_(bucket_count, false), is_skipped_(bucket_count, false) {}

  // The bucket is packed. Collective in effect: starts the sum of every bucket whose turn has come.
  // Does not block. Throws CommunicationError.
  void bucket_ready(std::size_t bucket_index, std::vector<Load>& loads, Communicator& communicator);

  // The pass is over, and all buckets are packed: starts what is left. As above.
  void release_last(std::vector<Load>& loads, Communicator& communicator);

  // Nobody needs this bucket in this pass; all ranks say so, before it is ready. Not the last one.
  void skip(std::size_t bucket_index) { is_skipped_.at(bucket_index) = true; }
  bool is_skipped(std::size_t bucket_index) const { return is_skipped_.at(bucket_index); }

  // Waits for all dense sums, in order. Blocks; throws CommunicationError.
  void wait_for_all(Communicator& communicator);

  bool has_launched() const { return next_ > 0; }

  // For the next backward pass. Nothing may be under way.
  void reset();

 private:
  void launch_up_to(std::size_t end, std::vector<Load>& loads, Communicator& communicator);

  std::vector<bool> is_ready_;
  std::vector<bool> is_skipped_;
  std::size_t next_ = 0;             // the bucket whose turn it is
  std::vector<Operation> launched_;  // of dense ones, in bucket order
};

}  // namespace lockstep
