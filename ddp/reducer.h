#pragma once

#include "ddp/bucket.h"
#include "ddp/bucket_plan.h"
#include "ddp/communicator.h"
#include "ddp/gradient_hooks.h"
#include "ddp/launch.h"
#include "ddp/readiness.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// Note [The flag in the last bucket]
// A rank whose backward pass is over cannot know whether its peers got all their gradients, and a
// peer that lacks one would never launch the rest. So a rank that lacks gradients fills their
// places with zeros and launches what is left, and the last bucket has one element more, which is 0
// on a rank that has everything and 1 on one that lacks something. Buckets are launched in order,
// so the last one is never on its way before this is known. After the sum every rank knows whether
// any rank lacked a gradient; then all keep their local gradients and raise one sentence. (Zero,
// not W, is what stays exact in any dtype. Every bucket has the element, so that equal buckets stay
// equal on the wire; only the last one's is used.) Source: docs/semantics.md 0.7.

// Averages gradients during backward: listens for each parameter's gradient, packs it scaled by
// 1/W, launches full buckets, and at the end of the pass waits and writes the averages back. Owned
// by one DistributedDataParallel; the parameters' hooks live as long as it does.
//
// Source: docs/semantics.md 2.2 and 2.3. Differences: a backward pass is synchronised whenever the
// last grad-enabled forward was (or an earlier synchronised one had no backward pass yet), so a
// second backward pass is averaged too rather than left local without a word (docs/semantics.md
// 0.10); and one forward's gradients cannot be collected over two backward passes, since the first
// of them is reported as unfinished.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  // Local; does not block. `trainable`: at least one dense parameter on the CPU, equal on all
  // ranks. `frozen` ones are only watched: they must stay frozen. Caps as in bucket_plan.h.
  static std::shared_ptr<Reducer> create(std::shared_ptr<Communicator> communicator,
                                         std::vector<NamedTensor> trainable,
                                         std::vector<NamedTensor> frozen,
                                         std::vector<std::int64_t> bytes_caps);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Before every forward. Local. Throws UnfinishedReductionError if a backward pass was cut off.
  void check_finished();

  // Before a forward whose backward passes are to be synchronised. Once, after the first complete
  // synchronised pass, it lays out the buckets anew by rank 0's order of arrival: Collective,
  // blocks. Throws UsageError if a parameter was frozen, unfrozen or converted since construction.
  void prepare();

  // After a grad-enabled forward: what becomes of its backward passes. Local.
  void synchronise_backward();
  void leave_backward_local();

  BucketPlan plan() const;

 private:
  // What follows from a plan, rebuilt with it.
  struct Layout {
    Layout(BucketPlan wanted, const std::vector<at::Tensor>& parameters);
    struct Place {
      std::size_t bucket = 0;
      std::size_t slot = 0;
    };
    BucketPlan plan;
    std::vector<Bucket> buckets;
    std::vector<Place> places;  // by gradient
    Readiness readiness;
    BucketLauncher launcher;
  };

  Reducer(std::shared_ptr<Communicator> communicator, std::vector<NamedTensor> trainable,
          std::vector<NamedTensor> frozen, std::vector<std::int64_t> bytes_caps);
  void check_parameters() const;
  void rebuild();
  void on_gradient(std::size_t index);
  void expect_end_of_backward();
  void check_gradient(std::size_t index, const at::Tensor& gradient) const;
  void pack(std::size_t index, const at::Tensor& gradient);
  void on_backward_end();
  void launch_without(const std::vector<std::size_t>& missing);
  void finish(const std::vector<std::size_t>& missing);
  std::string names_of(const std::vector<std::size_t>& indices) const;
  [[noreturn]] void report_unfinished(const std::vector<std::size_t>& missing);

  const std::shared_ptr<Communicator> communicator_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  const std::vector<NamedTensor> frozen_;
  const std::vector<std::int64_t> bytes_caps_;
  std::vector<GradientSize> sizes_;

  mutable std::mutex mutex_;  // hooks may run on autograd's threads
  std::unique_ptr<Layout> layout_;
  std::vector<std::size_t> arrival_order_;  // of the first synchronised pass
  bool is_rebuilt_ = false;
  bool has_outstanding_forward_ = false;
  bool last_forward_was_synchronised_ = false;
  bool in_backward_ = false;
  bool end_is_expected_ = false;
  std::unique_ptr<GradientHooks> hooks_;  // last: silent before anything else is destroyed
};

}  // namespace lockstep
