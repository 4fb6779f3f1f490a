#pragma once

#include "ddp/comm/communicator.h"
#include "ddp/communication_hook.h"
#include "ddp/reducer/layout.h"
#include "ddp/reducer/parameters.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// Launches the buckets of one backward pass strictly in the order of the plan: a bucket that is
// complete early waits for the ones before it. Gradients may arrive in a different order on each
// rank, and collectives are matched by order alone, so this order makes ranks add the same bucket.
// The last bucket also waits until it is released, when the pass has ended. Works are kept until
// they are waited for.
//
// With a communication hook, that is called in place of a dense bucket's sum, on gradients that are
// not divided, and the flag, which it does not see, is summed by a collective of its own behind the
// last bucket.
//
// Source: c10d's Reducer, "launch strictly in bucket order"; docs/semantics.md 2.3 and 2.9.
class BucketLauncher {
 public:
  // All outlive this object. `hook` may be null. `divisor`: what a hook divides by.
  // `is_first_pass`: as a hook sees it.
  BucketLauncher(std::vector<BucketPayload>& payloads, const Parameters& parameters,
                 Communicator& communicator, CommunicationHook* hook, int divisor,
                 bool is_first_pass)
      : payloads_(payloads),
        parameters_(parameters),
        communicator_(communicator),
        hook_(hook),
        divisor_(divisor),
        is_first_pass_(is_first_pass),
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

  // Waits for all dense sums, or has the hook finish, in order. With a hook Collective in effect.
  // Blocks; throws CommunicationError.
  void wait_for_all();

  bool has_launched() const { return next_ > 0; }
  bool has_launched_all() const { return next_ == payloads_.size(); }

 private:
  void launch_up_to(std::size_t end);
  void launch(std::size_t bucket_index);
  void run_hook(std::size_t bucket_index, const Bucket& bucket);
  void finish_hook(std::size_t bucket_index, const HookResult& result);
  std::string text_of_hook(std::size_t bucket_index) const;

  std::vector<BucketPayload>& payloads_;
  const Parameters& parameters_;
  Communicator& communicator_;
  CommunicationHook* const hook_;
  const int divisor_;
  const bool is_first_pass_;
  std::vector<bool> is_ready_;
  std::vector<bool> is_skipped_;
  std::size_t next_ = 0;             // the next bucket to launch
  std::vector<Operation> launched_;  // of dense ones, in bucket order, or the flag's alone
  std::vector<std::pair<std::size_t, HookResult>> hooked_;  // by bucket, in their order
};

}  // namespace lockstep
