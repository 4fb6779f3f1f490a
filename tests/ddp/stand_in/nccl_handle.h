#pragma once

#include "tests/ddp/stand_in/communicator.h"

#include <memory>

// What NCCL's handles point to.
struct ncclComm {
  std::shared_ptr<lockstep::stand_in::Communicator> communicator;
};

namespace lockstep::stand_in {

// Gives up where the handle is null.
std::shared_ptr<Communicator> communicator_of(ncclComm_t handle);

}  // namespace lockstep::stand_in
