#pragma once

#include <string>

namespace lockstep {

// Whether liblockstep_nccl.so was built with this library, and why: which headers, or what lacked.
// What CMake found; says nothing about the machine that runs. Local.
bool nccl_is_built();
std::string nccl_build_reason();

}  // namespace lockstep
