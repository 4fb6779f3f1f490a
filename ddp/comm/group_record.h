#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <memory>
#include <set>

namespace lockstep {

class Communicator;
class LastFailure;

// This process keeps one for a process group as long as the group lives.
struct GroupRecord {
  // Keeps the address from becoming another group's.
  c10::weak_intrusive_ptr<c10d::ProcessGroup> group;
  std::set<int> instance_numbers;  // Note [Instances on one group]
  int instances_made = 0;
  std::shared_ptr<LastFailure> last_failure;
  std::shared_ptr<Communicator> program;  // ddp/comm/program_communicator.h
  int groups_made = 0;                    // by new_group()
};

// Calls `use` with the record of `group`, while no other thread has one; `use` must not block. The
// table of records is the only mutable static of the library; ranks that share a process have group
// objects of their own. Local; thread-safe.
void with_record_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                    const std::function<void(GroupRecord&)>& use);

}  // namespace lockstep
