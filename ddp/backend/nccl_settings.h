#pragma once

#include "ddp/base/environment.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// The variables that PyTorch 2.11's ProcessGroupNCCL reads, and the values this library sets so
// that a failure is an exception on every rank and never the end of the process. A variable that
// the environment already has is the user's and stays. Local; pure.
//
// | variable                              | set to   | since otherwise                            |
// |---------------------------------------|----------|--------------------------------------------|
// | TORCH_NCCL_ASYNC_ERROR_HANDLING       | 2        | an error or timeout ends the process; this |
// |                                       |          | aborts communicators alone (CleanUpOnly)   |
// | TORCH_NCCL_RETHROW_CUDA_ERRORS        | 0        | a CUDA error ends it too                   |
// | TORCH_NCCL_DUMP_ON_TIMEOUT            | 0        | it dumps, and ends the process after that  |
// | TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC   | 0        | a kernel that waits for a dead peer spins  |
// |                                       |          | a minute longer, for the sake of the dump  |
// | TORCH_NCCL_NONBLOCKING_TIMEOUT        | the      | with TORCH_NCCL_USE_COMM_NONBLOCKING=1     |
// |                                       | timeout  | connecting to a peer that has gone takes   |
// |                                       |          | half an hour; whole seconds                |
//
// If the user requests dumps, the two dump variables are left alone. Three variables stay unset.
// TORCH_NCCL_BLOCKING_WAIT would hold the host at each wait. TORCH_NCCL_ENABLE_MONITORING, on by
// default, ends a process whose watchdog hangs in the driver, after a quarter of an hour or more,
// which would keep the GPU. TORCH_NCCL_USE_COMM_NONBLOCKING is off by default since NCCL 2.26 hung
// in it: Note [Connecting to a peer that is not there] has the replacement.
using NcclSettings = std::vector<std::pair<std::string, std::string>>;
NcclSettings nccl_settings(const EnvironmentLookup& lookup, std::chrono::milliseconds timeout);

}  // namespace lockstep
