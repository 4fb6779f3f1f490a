#include "harness/worlds/devices/one_gpu.h"

namespace lockstep {

EnvironmentVariables one_gpu_environment(int rank, const std::string& run, NcclVersion version,
                                         Hosts hosts) {
  const bool can_be_asked = version.major > 2 || (version.major == 2 && version.minor >= 30);
  EnvironmentVariables variables;
  if (can_be_asked) {
    variables = {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}};
  } else {
    variables = {
        {"NCCL_HOSTID", run + "-rank" + std::to_string(rank)},
        {"NCCL_NET", "Socket"},
        {"NCCL_IB_DISABLE", "1"},
        {"NCCL_P2P_DISABLE", "1"},
        {"NCCL_SHM_DISABLE", "1"},
        {"NCCL_MNNVL_ENABLE", "0"},
        {"NCCL_NVLS_ENABLE", "0"},
        {"NCCL_CUMEM_ENABLE", "0"},
        {"NCCL_MAX_CTAS", "1"},
        {"NCCL_MAX_NCHANNELS", "1"},
        {"NCCL_ALGO", "Ring"},
        {"NCCL_PROTO", "Simple"},
    };
    // The interface of exactly this name.
    if (hosts == Hosts::one) variables.emplace_back("NCCL_SOCKET_IFNAME", "=lo");
  }
  // The reaction of LibTorch's watchdog to a failure: it aborts spinning kernels, and leaves the
  // report to the rank, where the harness sees it.
  variables.emplace_back("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2");
  return variables;
}

}  // namespace lockstep
