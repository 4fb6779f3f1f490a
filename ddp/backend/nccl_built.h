#pragma once

#include <string>

namespace lockstep {

// Says whether liblockstep_nccl.so was built with this library, and why: which headers, or what was
// missing. As CMake found it; independent of the machine that runs. Local.
bool nccl_is_built();
std::string nccl_build_reason();

// The CUDA that LibTorch is for, such as "13.0"; empty where it is for the CPU alone, or unknown.
// Local.
std::string cuda_of_libtorch();

}  // namespace lockstep
