#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/comm/communicator.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// The plan by the order in which rank 0's gradients became ready: rank 0 broadcasts its order, and
// the ranks compare the plan. `arrivals` are this rank's in its last pass; a gradient that came
// more than once counts at its last arrival, and one that never came is last. Collective; blocks.
// Throws CommunicationError, and DisagreementError on all ranks.
BucketPlan rebuilt_plan(Communicator& communicator, const std::vector<std::size_t>& arrivals,
                        const std::vector<GradientSize>& sizes,
                        const std::vector<std::int64_t>& bytes_caps);

}  // namespace lockstep
