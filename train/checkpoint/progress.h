#pragma once

#include "train/checkpoint.h"
#include "train/checkpoint/state.h"

namespace lockstep {

// The part of a checkpoint beside model and optimizer. Everything is Local.

// Epoch, position and so on, by name; "rank" is this rank's.
StateDict state_of_sampler(const DistributedSampler& sampler,
                           const std::optional<std::size_t>& samples_used);

// Throws std::runtime_error where the file's sampler has another dataset size, world size, seed or
// options.
Assignments assignments_from(const Entry& state, DistributedSampler& sampler);

// The states of this rank's generators behind each other, and how many bytes each has.
at::Tensor packed_states(const std::vector<at::Generator>& generators);
std::vector<std::int64_t> sizes_of_states(const std::vector<at::Generator>& generators);

// By rank and generator, given packed_states() of each rank.
c10::IValue unpacked_states(const std::vector<at::Tensor>& packed,
                            const std::vector<std::int64_t>& sizes);

// Throws std::runtime_error where the file's generators are those of another world size, or others.
Assignments assignments_from(const Entry& states, const std::vector<at::Generator>& generators,
                             int rank, int world_size);

}  // namespace lockstep
