#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

// The interface between this library and liblockstep_nccl.so, which is the only part that sees
// nccl.h and CUDA's headers and that links libtorch_cuda. It is loaded when it is first needed
// (ddp/backend/nccl.h), so that a program runs where libtorch_cuda cannot be loaded.

// A backend for `rank` of `world_size` on GPU `device_index` of those this process sees.
struct NcclGroupRequest {
  c10::intrusive_ptr<c10d::Store> store;  // of this backend alone
  int rank = 0;
  int world_size = 1;
  int device_index = 0;
  std::chrono::milliseconds timeout{0};  // positive; of any one collective
};

// Functions throw subclasses of std::exception. All but the versions query the driver, after which
// this process must not fork.
struct NcclPlugin {
  // "Lockstep 0.1.0 on PyTorch 2.11.0": what this part was compiled with. First, so that another
  // layout of the rest is detected.
  const char* made_for;
  std::string (*nccl_version)();  // "2.28.9", of the library that was loaded
  std::string (*cuda_version)();  // "13.0", of the runtime LibTorch was compiled with

  // A name for each GPU that this process sees, in the order of device indices: the same name for
  // the same GPU in every process of a host. Throws where there is none, with the reason.
  std::vector<std::string> (*gpus)();
  std::string (*first_gpus_model)();

  // Collective only in that all ranks of a world make one; does not block and touches no GPU.
  c10::intrusive_ptr<c10d::Backend> (*make)(const NcclGroupRequest& request);

  // Collective; blocks until all ranks have connected and a first all-reduce has passed. Polls
  // `peer_error`, unless it is empty, for the error of a peer that cannot connect.
  void (*connect)(c10d::Backend& backend, int device_index, std::chrono::milliseconds time,
                  const std::function<std::string()>& peer_error);
};

// The name of the function in the library that returns it.
constexpr const char* kNcclPluginSymbol = "lockstep_nccl_plugin";

}  // namespace lockstep
