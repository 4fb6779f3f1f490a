// Optimizers of torch.distributed, for Plugin.
#pragma once

#include "harness/pytorch/plugin/python.h"

namespace lockstep::pytorch {

std::unique_ptr<AveragedSgd> averaged_sgd(const std::vector<at::Tensor>& parameters,
                                          const Group& group, const Values& options);
std::unique_ptr<ZeroRedundancyOptimizer> zero_redundancy_optimizer(
    const std::string& optimizer, const std::vector<ParamGroup>& groups, const Group& group);

// Python's object behind one that zero_redundancy_optimizer() made. The caller holds the lock.
const py::object& object_of(const ZeroRedundancyOptimizer& optimizer);

}  // namespace lockstep::pytorch
