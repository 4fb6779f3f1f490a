#pragma once

#include "ddp/backend/choice.h"
#include "ddp/init.h"
#include "ddp/meeting/environment.h"

#include <chrono>
#include <optional>
#include <string>

namespace lockstep {

// Which backends a rank of init_process_group() has: what it wants, whether it can, and making
// them. ddp/backend/choice.h has the rules.

// What one rank decides before it meets the others.
struct BackendDecision {
  BackendWish wish;
  int ranks_per_device = 1;
  std::string why_no_nccl;  // where nothing was asked for and there is none
  std::string objection;    // why this rank cannot have what was asked for

  // What ranks compare, such as "cpu:gloo,cuda:nccl by default".
  std::string words() const;
  std::string because() const;
};

// Throws UsageError for options that cannot be meant. Local; loads nothing.
void check_backends(const InitOptions& options);

// Loads NCCL where it may be of use. Local. `options` have been checked.
BackendDecision decide_backends(const InitOptions& options);

// The GPU of this rank, of which NCCL needs one. Where nothing was asked for and the ranks cannot
// be placed, NCCL is taken off the `decision`, on all ranks, and there is none. Collective, behind
// meet_in(); blocks. Throws DisagreementError with the same sentence on every rank where they
// cannot be placed.
std::optional<int> agree_on_device(c10d::Store& store, const Standing& standing,
                                   std::chrono::milliseconds timeout,
                                   const std::optional<int>& asked_for, BackendDecision& decision);

// A group with an NCCL backend for CUDA tensors, and with `gloo` for what the decision says, which
// may be null where it says so. Collective where NCCL was asked for: then it connects, within
// `time_left`. Throws what NCCL says of the first rank that could not.
c10::intrusive_ptr<c10d::ProcessGroup> make_decided_group(
    const c10::intrusive_ptr<c10d::Store>& store, const Standing& standing,
    std::chrono::milliseconds timeout, std::chrono::milliseconds time_left,
    const BackendDecision& decision, std::optional<int> device,
    const c10::intrusive_ptr<c10d::Backend>& gloo);

}  // namespace lockstep
