#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lockstep {

// Note [Instances on one group]
// Collectives of a group pair up by order alone. Two instances on one group whose backward passes
// run in an order that depends on the rank would add up gradients of different models, and
// PyTorch's do, without a word. So every instance that lives on a group has a number, the smallest
// that is free: number 0 uses the group itself, any other a part of its own, of the same ranks.
// Whatever the order, they cannot meet. A part is named by how many instances were made on the
// group before: what an earlier part left in the store must not be found. Both numbers are among
// what ranks compare. This table is the only mutable static of the library; ranks that share a
// process have group objects of their own.

// Holds its owner's number among the instances on a group, as long as it lives. Local; does not
// block; thread-safe.
class GroupMember {
 public:
  explicit GroupMember(c10::intrusive_ptr<c10d::ProcessGroup> group);
  ~GroupMember();
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  int number() const { return number_; }
  int made_before() const { return made_before_; }

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int number_ = 0;
  int made_before_ = 0;
};

}  // namespace lockstep
