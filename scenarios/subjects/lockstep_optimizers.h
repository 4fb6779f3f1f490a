// Lockstep's averaging of models and its sharded optimizer, for the subject.
#pragma once

#include "harness/worlds/subject.h"

namespace lockstep {

std::unique_ptr<AveragedSgd> lockstep_averaged_sgd(const std::vector<at::Tensor>& parameters,
                                                   const Group& group,
                                                   const AveragingOptions& options);

std::unique_ptr<ShardedOptimizer> lockstep_sharded_optimizer(const ParamGroups& groups,
                                                             const MakeOptimizer& make,
                                                             const Group& group);

}  // namespace lockstep
