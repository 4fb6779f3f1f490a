#pragma once

#include "ddp/backend/choice.h"
#include "ddp/base/disagreement.h"
#include "ddp/base/environment.h"
#include "ddp/init.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The backends of a rank of init_process_group(): deciding what it wants, checking whether it can
// have that, and making them. ddp/backend/choice.h has the rules.

// One rank's decision before the rendezvous.
struct BackendDecision {
  BackendWish wish;
  int ranks_per_device = 1;
  std::string why_no_nccl;       // if nothing was requested and there is none
  std::string validation_error;  // why this rank cannot have what was requested

  // The text that ranks compare, such as "cpu:gloo,cuda:nccl by default".
  Property property() const;
  std::string because() const;
};

// Throws UsageError for invalid options. Local; loads nothing.
void check_backends(const InitOptions& options);

// Loads NCCL where it may be of use. Local. `options` have been checked.
BackendDecision decide_backends(const InitOptions& options);

// This rank's place, which ranks exchange at the rendezvous; empty without NCCL. Local.
std::string place_of_this_rank(const RankAndSize& position, const std::optional<int>& asked_for,
                               const BackendDecision& decision);

// Why the ranks, at these places, cannot have the NCCL that was requested; empty if they can.
// Local; the same on all ranks, like choose_device().
std::string problem_with_places(const std::vector<std::string>& places,
                                const BackendDecision& decision);

// The GPU of this rank, which NCCL needs. If nothing was requested and the ranks cannot be placed,
// removes NCCL from the `decision` and returns nothing. Local.
std::optional<int> choose_device(const std::vector<std::string>& places, int rank,
                                 BackendDecision& decision);

// A group with an NCCL backend for CUDA tensors, and with `gloo` for what the decision says, which
// may be null where it says so. Collective if NCCL was requested: then it connects, within
// `time_left`. Throws the NCCL error of the first rank that could not.
c10::intrusive_ptr<c10d::ProcessGroup> make_decided_group(
    const c10::intrusive_ptr<c10d::Store>& store, const RankAndSize& position,
    std::chrono::milliseconds timeout, std::chrono::milliseconds time_left,
    const BackendDecision& decision, std::optional<int> device,
    const c10::intrusive_ptr<c10d::Backend>& gloo);

}  // namespace lockstep
