#pragma once

#include <optional>
#include <string>

namespace lockstep::fake_cuda {

// Plants faults in this process, as LOCKSTEP_FAKE_CUDA_FAULTS says: `FUNCTION@N=WHAT`, with commas
// between several. N counts the calls of FUNCTION from 1. WHAT is
// - the name of an error, which the call returns: ncclSystemError, cudaErrorIllegalAddress;
// - `never`: what the call puts on a stream never ends; a connecting does not answer;
// - `async:` and an error of NCCL's: as never, and the communicator tells of the error;
// - `late`: what the call sends lies in a buffer of this rank for half a second, though it ends
//   here; aborting the communicator loses it, as it may over NCCL;
// - `kill`: the process is killed.
// Counts this call; empty where nothing is to go wrong with it. Kills.
std::string fault_of(const std::string& function);

}  // namespace lockstep::fake_cuda
