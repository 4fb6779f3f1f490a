// Several ranks on one GPU, for machines that have no more. No torch.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// As nccl.h tells: {2, 28}.
struct NcclVersion {
  int major = 2;
  int minor = 28;
};

enum class Hosts { one, several };

// The environment of rank `rank` of a world some of whose ranks share a GPU, which NCCL otherwise
// refuses ("Duplicate GPU detected"). `run` tells worlds apart that are alive at once; `hosts` is
// where the world is. To be set in all of its ranks, before anything touches NCCL, and not where
// every rank has a GPU of its own.
//
// For correctness alone, never for timing: a bucket takes 4 to 17 ms this way, so that deadlines
// are of a minute or more, and ranks that wait spin on the GPU they share, so that a world ends as
// a whole when one of its ranks fails.
//
// Note [Ranks that share a GPU]
// Until 2.29 NCCL looks at hosts and GPUs: ranks with a host id of their own are on different
// hosts, as far as it knows, so they may have GPUs of one number. Then they must not find a way
// that takes one host (P2P, shared memory, NVLink), nor, where all are on one, a network but
// loopback; over several, NCCL finds the interface, or is told by NCCL_SOCKET_IFNAME. Few thread
// blocks and one channel, or the kernels of one rank would keep the others' off the GPU, for which
// they wait. One algorithm and protocol, so that sums do not depend on what NCCL measured.
// From 2.30 on it can be asked for it.
using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;
EnvironmentVariables one_gpu_environment(int rank, const std::string& run, NcclVersion version = {},
                                         Hosts hosts = Hosts::one);

}  // namespace lockstep
