// The parts of a training loop beside a wrapped model, for the subject: Lockstep's sampler,
// checkpoints, collectives and splits.
#pragma once

#include "harness/worlds/subject.h"

namespace lockstep {

std::unique_ptr<Shard> lockstep_shard(const ShardOptions& options, RankContext& here);

Checkpoints lockstep_checkpoints();

void lockstep_check_equal(const TrainingState& parts, const Group& group);

std::vector<at::Tensor> lockstep_collective(const ProgramCollective& call, const Group& group);

std::vector<std::vector<int64_t>> lockstep_random_split(int64_t size,
                                                        const std::vector<double>& shares,
                                                        uint64_t seed);

}  // namespace lockstep
