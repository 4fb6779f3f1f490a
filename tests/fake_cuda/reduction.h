#pragma once

#include "tests/fake_cuda/api.h"

#include <cstddef>
#include <vector>

namespace lockstep::fake_cuda {

std::size_t bytes_of(ncclDataType_t type);

// to = the reduction of `parts`, in rank order, each of `count` numbers. Averages of floating-point
// numbers divide before they add, as NCCL's do. Gives up on a type that nothing here needs.
void reduce(const std::vector<std::vector<char>>& parts, char* to, std::size_t count,
            ncclDataType_t type, ncclRedOp_t operation);

}  // namespace lockstep::fake_cuda
