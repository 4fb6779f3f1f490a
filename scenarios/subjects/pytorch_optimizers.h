// torch.distributed's optimizers of Python, for the subject pytorch.
#pragma once

#include "harness/pytorch/plugin/plugin.h"
#include "harness/worlds/subject.h"

#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

// Calls the plugin, whose refusals are Unsupported to the harness.
template <class Call>
auto asked(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const pytorch::Refused& refused) {
    throw Unsupported(refused.what());
  }
}

std::unique_ptr<AveragedSgd> pytorch_averaged_sgd(const std::vector<at::Tensor>& parameters,
                                                  const Group& group,
                                                  const AveragingOptions& options);

// A sharded optimizer over SGD, RMSprop or Adagrad, which compute what LibTorch's compute, bit for
// bit.
std::unique_ptr<ShardedOptimizer> pytorch_sharded_optimizer(const ParamGroups& groups,
                                                            const MakeOptimizer& make,
                                                            const Group& group);

// The plugin's own of one that pytorch_sharded_optimizer() made.
pytorch::ZeroRedundancyOptimizer& zero_of(ShardedOptimizer& optimizer);

}  // namespace lockstep
