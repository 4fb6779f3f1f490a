// Lockstep's averaging of models and its sharded optimizer, for the subject.
#pragma once

#include "harness/worlds/subject.h"

namespace lockstep {

class Joinable;

// Gives back what the library's collectives keep for a group, a thread among it: it would outlive
// the case where the world is kept for the next one.
class GivesBack {
 public:
  explicit GivesBack(Group group) : group_(std::move(group)) {}
  ~GivesBack();
  GivesBack(const GivesBack&) = delete;
  GivesBack& operator=(const GivesBack&) = delete;

 private:
  const Group group_;
};

std::unique_ptr<AveragedSgd> lockstep_averaged_sgd(const std::vector<at::Tensor>& parameters,
                                                   const Group& group,
                                                   const AveragingOptions& options);

// The library's own of one that lockstep_sharded_optimizer() made.
std::shared_ptr<Joinable> joinable_of(ShardedOptimizer& optimizer);

std::unique_ptr<ShardedOptimizer> lockstep_sharded_optimizer(const ParamGroups& groups,
                                                             const MakeOptimizer& make,
                                                             const Group& group);

}  // namespace lockstep
