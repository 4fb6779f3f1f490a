// Several ranks on one GPU, for machines with fewer GPUs than ranks. No torch.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// The version of the library that is loaded: {2, 28}.
struct NcclVersion {
  int major = 0;
  int minor = 0;
};

enum class Hosts { one, several };

// The environment of rank `rank` of a world some of whose ranks share a GPU, which NCCL otherwise
// refuses ("Duplicate GPU detected"). `run` distinguishes worlds that are alive at once; `hosts` is
// where the world is. Set it in all ranks of the world, before anything touches NCCL, and not where
// every rank has its own GPU.
//
// For correctness alone, never for timing: whatever ranks send goes through the host, and a kernel
// that waits for a peer holds up the kernels of the peer, which run in turns on that GPU. How long
// that takes nobody has measured yet (docs/gpu.md), so deadlines are a minute or more. Waiting
// ranks spin on the shared GPU, so a world ends as a whole when one of its ranks fails.
//
// Note [Ranks that share a GPU]
// Until 2.29 NCCL compares hosts and GPUs: ranks with different host ids count as ranks on
// different hosts, so their GPUs may have equal numbers. Then they must not use a transport within
// one host (P2P, shared memory, NVLink), nor, where all are on one host, a network but loopback;
// over several hosts NCCL finds the interface, or NCCL_SOCKET_IFNAME names it. Few thread blocks
// and one channel: otherwise the kernels of one rank would keep the kernels they wait for off the
// GPU. One algorithm and protocol, so that sums do not depend on what NCCL measured. From 2.30 on
// NCCL has an option for it.
using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;
EnvironmentVariables one_gpu_environment(int rank, const std::string& run, NcclVersion version,
                                         Hosts hosts);

}  // namespace lockstep
