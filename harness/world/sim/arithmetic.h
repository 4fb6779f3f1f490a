// What a collective does to the tensors of its members, in one process.
#pragma once

#include "harness/world/call.h"
#include "harness/world/sim/reduction.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sim {

// Carries out the operation that all of `members` ask for, by member; writes their outputs.
// Elements are paired by their place in memory, as a network pairs them, and no version counter
// moves. Throws c10::Error for what cannot be carried: tensors with gaps, operations or reductions
// that do not exist, sizes that do not fit.
void carry_out(const std::vector<const Call*>& members, const ReductionOrder& order);

// What a message of one member holds.
int64_t bytes_of(const Call& call);

}  // namespace lockstep::sim
