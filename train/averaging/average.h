#pragma once

#include "ddp/consistency/named_tensor.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <vector>

namespace lockstep {

// Replaces each tensor that has a gradient by its average over the ranks, once all of them have
// shown that they have the same ones in the same step. Collective; blocks. Throws UsageError,
// DisagreementError and CommunicationError.
void average(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
             const std::vector<NamedTensor>& parameters, std::int64_t step);

}  // namespace lockstep
