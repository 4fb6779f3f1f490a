#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace lockstep {

// NCCL as the rest of this library sees it: without nccl.h, without CUDA's headers, and without
// linking libtorch_cuda, which a machine without NVIDIA's libraries cannot load. All that needs
// them is in liblockstep_nccl.so, which is loaded when it is first needed.
//
// A program that computes on GPUs links libtorch_cuda, or lockstep::nccl, or calls load_nccl()
// first thing in main: LibTorch asks once in a process whether there is CUDA, by itself and early
// (torch::manual_seed and backward() do), and what is loaded afterwards it never looks at.
struct NcclLibrary {
  std::string problem;  // why it cannot be used, as the rest of a sentence; empty: it can
  std::string version;  // "2.28.9"; empty where there is a problem
  std::string cuda_version;
};

// Loads liblockstep_nccl.so, and with it libtorch_cuda, at the first call; later ones return what
// that found. Looked for along LD_LIBRARY_PATH, the program's RUNPATH, and beside the program. A
// second or two, and some hundred MB of address space. Local; asks no driver, so that the process
// may fork afterwards. Does not throw.
const NcclLibrary& load_nccl();

// Whether this machine looks as if it had an NVIDIA GPU, by the driver's device files alone: no
// library is loaded for the question. Local.
bool may_have_gpu();

// A name for each GPU that this process sees, in the order of device indices; equal in all
// processes of a host. Or the problem: as above, or no GPU, or no driver for it. Local; asks the
// driver, after which this process must not fork.
struct Gpus {
  std::vector<std::string> names;
  std::string problem;
};
Gpus usable_gpus();

// An NCCL backend for `rank` of `world_size` on GPU `device_index`, whose ranks meet in `store`,
// of this backend alone. Sets the variables of ddp/backend/nccl_settings.h that the environment
// does not have. Touches no GPU and does not block: NCCL connects at the first collective, or at
// connect_nccl(). Splitting it connects a new one. Its destructor waits until this rank's work is
// over and for its peers for up to three seconds, and leaves nothing running on the GPU.
//
// A collective that fails (an error of the network, a peer that died, or `timeout` and ten seconds)
// is aborted by NCCL's watchdog, and then looks like one that has ended well, with any bytes in its
// tensors: ask failure_of() before its result is used.
//
// Local. Throws std::exception where usable_gpus() has a problem.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, int device_index,
                                                    std::chrono::milliseconds timeout);

// Collective: blocks until every rank has connected and a first all-reduce has passed, so that what
// NCCL dislikes is said here. Throws what NCCL says, at the timeout at the latest.
void connect_nccl(const c10::intrusive_ptr<c10d::Backend>& backend, int device_index);

// Why `backend` can carry nothing any more, as a sentence; empty where it can, or does not tell
// (Gloo's failures are those of its works). For NCCL: ask it of a work that has ended. Local.
std::string failure_of(c10d::Backend& backend);

// Ends what is under way on `backend`, for good: works end, a GPU is no longer kept busy, and
// destructors wait for nobody. Blocks for up to ten seconds; false where it was not over then,
// and goes on by itself. Nothing on backends that cannot (Gloo). Local; does not throw.
bool abort_backend(const c10::intrusive_ptr<c10d::Backend>& backend);

}  // namespace lockstep
