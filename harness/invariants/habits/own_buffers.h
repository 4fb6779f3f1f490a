// Buffers of layers that no wrapper broadcasts: statistics of a model whose gradients the program
// averages, the centre of a loss.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// A remark where ranks have buffers of their own in such layers whenever a pass over data begins.
std::optional<Finding> own_buffers(const RecordedRun& run);

}  // namespace lockstep::recorded
