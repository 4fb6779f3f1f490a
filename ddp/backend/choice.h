#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Chooses the backend for tensors of each device, and the GPU of each rank. Pure functions on plain
// values, without torch. Local.

// InitOptions::backend, parsed.
struct BackendWish {
  bool is_default = false;  // nothing was requested
  std::string cpu;          // "gloo" or nothing
  std::string cuda;         // "nccl", "gloo" or nothing
};

// "" | "gloo" (both devices) | "nccl" (CUDA alone) | "cpu:gloo" | "cuda:nccl" | "cuda:gloo" and
// pairs of them, such as "cpu:gloo,cuda:nccl". Throws UsageError that lists what there is.
BackendWish read_backend(const std::string& text);

// "cpu:gloo,cuda:nccl": devices in this order.
std::string words_of(const BackendWish& wish);

// The choice if nothing was requested: Gloo for the CPU, and NCCL for CUDA unless there is a
// `problem` with it.
BackendWish default_backend(const std::string& problem);

// A rank's place, as it sends it to the others.
struct RankPlace {
  std::string host;
  std::vector<std::string> gpus;    // those it sees, in the order of device indices
  std::optional<int> local_rank;    // if its launcher sets it
  std::optional<int> device_index;  // if its program sets it
};

std::string text_of(const RankPlace& place);
RankPlace place_from(const std::string& text);

// The device index of every rank, or why they cannot be placed: the same on all ranks, since it is
// computed from the same places. The index is the local rank, the position among the ranks of the
// host, divided by `ranks_per_device`; where ranks of a host see different GPUs, as Slurm and
// Kubernetes show each its own, it is the position among those that see the same. Never the global
// rank.
struct Placement {
  std::vector<int> device_indices;
  std::string problem;
};
Placement place_ranks(const std::vector<RankPlace>& places, int ranks_per_device);

}  // namespace lockstep
