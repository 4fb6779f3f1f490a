#pragma once

#include "ddp/meeting/environment.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// The variables that PyTorch 2.11's ProcessGroupNCCL reads, and what this library sets so that a
// failure is an exception on every rank and never the end of the process. What the environment has
// already is the user's and stays. Local; pure.
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
// Where the user asks for dumps, those two are left alone. TORCH_NCCL_BLOCKING_WAIT stays unset: on
// it would hold the host at each wait. So does TORCH_NCCL_ENABLE_MONITORING, on by default: it ends
// a process whose watchdog hangs in the driver, after a quarter of an hour or more, which would
// keep the GPU. And so does TORCH_NCCL_USE_COMM_NONBLOCKING, off by default since NCCL 2.26 hung in
// it: Note [Connecting to a peer that is not there] has what stands in its place.
using NcclSettings = std::vector<std::pair<std::string, std::string>>;
NcclSettings nccl_settings(const EnvironmentLookup& lookup, std::chrono::milliseconds timeout);

}  // namespace lockstep
