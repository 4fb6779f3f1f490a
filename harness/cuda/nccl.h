// NCCL as the harness uses it, found and loaded by the harness itself: the carrier of collectives
// shares nothing with the library that is judged. No torch.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cuda {

// Says whether liblockstep_harness_nccl.so was built, and why: which headers, or what was missing.
// As CMake found it.
bool nccl_is_built();
std::string nccl_build_reason();

// The CUDA that LibTorch is for, such as "13.0"; empty where it is for the CPU alone, or unknown.
std::string cuda_of_libtorch();

// True if this machine seems to have an NVIDIA GPU, by the driver's device files alone.
bool may_have_gpu();

struct NcclLibrary {
  std::string problem;  // why it cannot be used, as the rest of a sentence; empty: it can
  std::string version;  // of the library that is loaded, "2.28.9"; empty where there is a problem
  int major = 0, minor = 0;  // of that version
};

// Loads liblockstep_harness_nccl.so, and with it libtorch_cuda, at the first call. LibTorch checks
// once in a process whether there is CUDA, and early: so call this before anything of LibTorch.
// Queries no driver, so that the process may fork afterwards. Does not throw.
const NcclLibrary& load_nccl();

// A name for each GPU that this process sees, in the order of device indices; equal in all
// processes of a host. Or the problem: as above, or no GPU, or no driver for it. Queries the
// driver, after which this process must not fork.
struct Gpus {
  std::vector<std::string> names;
  std::string model;  // of the first: "NVIDIA H100 80GB HBM3"
  std::string problem;
};
Gpus usable_gpus();

}  // namespace lockstep::cuda
