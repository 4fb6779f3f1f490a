#pragma once

#include "tests/fake_cuda/communicator.h"

#include <memory>

// The object that NCCL's handles point to.
struct ncclComm {
  std::shared_ptr<lockstep::fake_cuda::Communicator> communicator;
};

namespace lockstep::fake_cuda {

// Gives up where the handle is null.
std::shared_ptr<Communicator> communicator_of(ncclComm_t handle);

}  // namespace lockstep::fake_cuda
