#pragma once

#include <string>
#include <vector>

namespace lockstep {

// NCCL as the rest of this library sees it: without nccl.h, without CUDA's headers, and without
// linking libtorch_cuda, which a machine without NVIDIA's libraries cannot load. Everything that
// needs them is in liblockstep_nccl.so, which is loaded when it is first needed.
//
// A program that computes on GPUs links libtorch_cuda, or lockstep::nccl, or calls load_nccl()
// first thing in main: LibTorch checks once in a process whether there is CUDA, and early
// (torch::manual_seed and backward() do), and ignores a library that is loaded afterwards.
struct NcclLibrary {
  std::string problem;  // why it cannot be used, as the rest of a sentence; empty: it can
  std::string version;  // "2.28.9"; empty where there is a problem
  std::string cuda_version;
};

// Loads liblockstep_nccl.so, and with it libtorch_cuda, at the first call; later calls return the
// same result. Searches LD_LIBRARY_PATH, the program's RUNPATH, and the program's folder. Takes a
// second or two, and some hundred MB of address space. Local; queries no driver, so that the
// process may fork afterwards. Does not throw.
const NcclLibrary& load_nccl();

// True if this machine seems to have an NVIDIA GPU, by the driver's device files alone: loads no
// library. Local.
bool may_have_gpu();

// A name for each GPU that this process sees, in the order of device indices; equal in all
// processes of a host. Or the problem: as above, or no GPU, or no driver for it. Local; queries the
// driver, after which this process must not fork.
struct Gpus {
  std::vector<std::string> names;
  std::string model;  // of the first, for people: "NVIDIA H100 80GB HBM3"
  std::string problem;
};
Gpus usable_gpus();

}  // namespace lockstep
