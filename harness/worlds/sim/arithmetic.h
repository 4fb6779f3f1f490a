// Executes a collective on the tensors of its members, in one process.
#pragma once

#include "harness/rank/call.h"
#include "harness/worlds/sim/reduction.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sim {

// Executes the operation that all `members` issued, given by member; writes their outputs. Elements
// are paired by their place in memory, as on a network, and no version counter changes. Throws
// c10::Error for what cannot be sent: tensors with gaps, operations or reductions that do not
// exist, sizes that do not fit, dtypes of tensors on the CPU that Gloo does not carry either.
void carry_out(const std::vector<const Call*>& members, const ReductionOrder& order);

// True if carry_out writes the outputs of this member: the root of a broadcast is not written, and
// of a reduce and a gather it alone.
bool is_written(const Call& call, size_t member);

bool has_sparse_tensors(const Call& call);

// The same call on copies of its tensors; a tensor that is input and output has one copy.
Call on_copies(const Call& call);

// Copies the bytes of each tensor. Throws c10::Error where the sizes differ.
void deliver(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to);

// The bytes of one member's message.
int64_t bytes_of(const Call& call);

}  // namespace lockstep::sim
