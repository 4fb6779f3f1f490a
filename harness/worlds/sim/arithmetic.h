// Executes a collective on the tensors of its members, in one process.
#pragma once

#include "harness/recorder/call.h"
#include "harness/worlds/sim/reduction.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sim {

// Executes the operation that all `members` issued, given by member; writes their outputs. Elements
// are paired by their place in memory, as on a network, and no version counter changes. Throws
// c10::Error for what cannot be sent: tensors with gaps, operations or reductions that do not
// exist, sizes that do not fit.
void carry_out(const std::vector<const Call*>& members, const ReductionOrder& order);

// The bytes of one member's message.
int64_t bytes_of(const Call& call);

}  // namespace lockstep::sim
