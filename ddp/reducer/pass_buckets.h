#pragma once

#include "ddp/bucket_plan/readiness.h"
#include "ddp/comm/communicator.h"
#include "ddp/comm/streams.h"
#include "ddp/reducer/launch.h"
#include "ddp/reducer/layout.h"
#include "ddp/reducer/parameters.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <vector>

namespace lockstep {

// The value of a gradient in a pass. arrived: the new gradient. unused: the existing .grad, since
// this rank does not use the parameter. missing: zeros.
enum class GradientArrival { arrived, unused, missing };

// Note [The flag in the last bucket]
// A rank whose backward pass has ended does not know how its peers' passes went, and a peer that
// lacks a gradient, or threw, would never launch the rest. So such a rank fills the missing
// gradients with zeros and launches all remaining buckets. The last bucket, launched when the pass
// has ended, ends with the flag: after the sum every rank knows whether any rank had an error; if
// so, all ranks raise the same sentence, and the group stays usable. The flag also has the number
// of the rank's step: a rank that left out a backward pass and continued would otherwise average
// its next step with its peers' last one. (Every bucket has a flag, so that equal buckets have
// equal sizes on the wire; only the last bucket's is used.) Source: docs/semantics.md 0.7, 1.4.

// The buckets of a layout in one reduced pass: packs each gradient divided by `divisor`, launches
// full buckets, waits, and writes the averages back. The objects that it refers to outlive it.
class PassBuckets {
 public:
  // `streams`: those on which the pass's gradients arrive. `divisor`: what sums are divided by; a
  // communication `hook`, which may be null, does it itself. `is_first_pass`: as it sees it.
  PassBuckets(Layout& layout, const Parameters& parameters, BucketOptions options,
              Communicator& communicator, const ArrivalStreams& streams, CommunicationHook* hook,
              int divisor, bool is_first_pass);

  // No rank needs this bucket in this pass: nothing is sent. Called on all ranks before anything is
  // packed; never for the last one, which carries the flag.
  void skip(std::size_t bucket_index) { launcher_.skip(bucket_index); }

  // Packs a gradient, once in a pass, and launches what is full and next in order. Collective in
  // effect; does not block. Throws CommunicationError.
  void pack(std::size_t index, GradientArrival arrival);

  // Gradients that were to be copied when their bucket is full are missing; the rest is to be
  // packed as missing.
  void read_no_more_gradients();

  bool is_packed(std::size_t index) const { return readiness_.is_ready(index); }
  bool all_are_packed() const { return readiness_.all_ready(); }
  std::vector<std::size_t> missing() const { return readiness_.missing(); }
  bool has_launched() const { return launcher_.has_launched(); }

  // All gradients are packed: launches the rest, with the flag. As pack(). Called again it does
  // nothing: the end of a nested pass may come as well.
  void release_last(const PassFlag& flag);

  // Waits for all sums. Collective; blocks; throws CommunicationError.
  void wait_for_sums();

  // True if no rank failed, and all are in one step. On a device whose stream waits the flag comes
  // late: Note [Flags of a device].
  bool flag_is_well() const;
  bool flag_comes_late() const;
  const at::Tensor& flag() const;

  // Writes the averages to .grad of the parameters that some rank used; an error of one parameter
  // does not keep the others from being averaged. Unless `writes`, gradients stay as they are, and
  // only collectives run. Collective; blocks; throws CommunicationError.
  struct Written {
    std::int64_t buckets_reduced = 0;
    std::int64_t unused_bytes = 0;
    std::exception_ptr first_error;
  };
  Written write_back(const std::vector<bool>& used_somewhere, bool writes);

  // The current stream waits for all work on the buckets; called when the pass is over.
  void settle();

 private:
  void complete(std::size_t bucket_index, Bucket& bucket);
  void unpack(std::size_t bucket_index, Bucket& bucket, const std::vector<bool>& used_somewhere,
              std::exception_ptr& first_error);

  Layout& layout_;
  const Parameters& parameters_;
  const BucketOptions options_;
  Communicator& communicator_;
  const ArrivalStreams& streams_;
  const int divisor_, divisor_of_dense_;
  Readiness readiness_;
  BucketLauncher launcher_;
  std::vector<std::vector<std::size_t>> postponed_;  // by bucket: slots that complete() copies
  std::map<std::size_t, at::Tensor> kept_;  // what unused gradients that are views held before
};

}  // namespace lockstep
