// The interface between the harness and liblockstep_harness_nccl.so, which alone sees nccl.h and
// CUDA's headers and links libtorch_cuda: the harness also runs where these cannot be loaded.
#pragma once

#include "harness/cuda/nccl_backend.h"

#include <string>
#include <tuple>
#include <vector>

namespace lockstep::cuda {

// The functions throw subclasses of std::exception. All but the version query the driver.
struct NcclPlugin {
  std::tuple<int, int, int> (*nccl_version)();  // of the library that is loaded
  std::vector<std::string> (*gpus)();           // as usable_gpus(); throws where there is none
  std::string (*first_gpus_model)();
  c10::intrusive_ptr<c10d::Backend> (*connect)(const NcclRank& place);
};

// The function in the library that returns it.
constexpr const char* kNcclPluginSymbol = "lockstep_harness_nccl_plugin";

}  // namespace lockstep::cuda
