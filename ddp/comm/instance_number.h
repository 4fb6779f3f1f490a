#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>

namespace lockstep {

class LastFailure;

// Note [Instances on one group]
// Collectives of a group are matched by order alone. If two instances on one group run their
// backward passes in an order that depends on the rank, gradients of different models are summed,
// silently in PyTorch. So every instance on a group has a number, the smallest that is free: number
// 0 uses the group itself, any other a split group of the same ranks, so their collectives never
// match, whatever the order. The name of a split group contains the number of instances made on the
// group before, so that it does not find what an earlier one left in the store. Ranks compare both
// numbers.

// Holds its owner's number among the instances on a group for its lifetime. Local; does not block;
// thread-safe.
class InstanceNumber {
 public:
  explicit InstanceNumber(c10::intrusive_ptr<c10d::ProcessGroup> group);
  ~InstanceNumber();
  InstanceNumber(const InstanceNumber&) = delete;
  InstanceNumber& operator=(const InstanceNumber&) = delete;

  int number() const { return number_; }
  int made_before() const { return made_before_; }

  // The owner was not made on all ranks, and does not count. Local.
  void forget();

  const std::shared_ptr<LastFailure>& last_failure() const { return last_failure_; }

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int number_ = 0;
  int made_before_ = 0;
  std::shared_ptr<LastFailure> last_failure_;
};

}  // namespace lockstep
