#pragma once

#include "ddp/comm/communicator.h"

#include <chrono>
#include <memory>
#include <optional>

namespace lockstep {

// The communicator of the collectives that a program issues itself on `group`: it has a group of
// its own, of the same ranks, so that a collective that one rank alone issues never takes the place
// of an instance's (Note [Instances on one group]). Every call for one group returns the same one,
// which lives until the group has ended or it is released. A failure of a peer in such a collective
// ends the waits of the others.
//
// The first call is Collective and blocks, at most for `timeout`, which is positive (unset: that of
// the group); then Local. Throws UsageError where the backend cannot be split, and
// CommunicationError, which names `call`, what the program called, and the ranks that did not come;
// the next call of all ranks begins anew.
std::shared_ptr<Communicator> program_communicator(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    std::optional<std::chrono::milliseconds> timeout, const std::string& call);

// The next call of program_communicator makes another. Local.
void release_program_communicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace lockstep
