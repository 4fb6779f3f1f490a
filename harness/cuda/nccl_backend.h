#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace lockstep::cuda {

// c10d's NCCL backend, as a world of the harness needs it. One rank's place in it:
struct NcclRank {
  c10::intrusive_ptr<c10d::Store> store;  // of this backend alone
  int rank = 0;
  int size = 1;
  int device_index = 0;  // among the GPUs that this process sees
  std::chrono::milliseconds timeout{0};
};

// Collective: blocks until all ranks have connected and a first all-reduce has passed; the deadline
// is that of the case, at which the rank is stuck. A failure of NCCL is an error of the rank, never
// the end of its process. Splitting the backend connects a new one. Its destructor waits for the
// rank's own work, then up to three seconds for its peers'. Throws std::exception: NCCL's errors,
// and where usable_gpus() has a problem.
c10::intrusive_ptr<c10d::Backend> connected_nccl_backend(const NcclRank& place);

}  // namespace lockstep::cuda
