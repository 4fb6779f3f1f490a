#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Which backend carries tensors of which device, and on which GPU each rank stands. Pure functions
// on plain values, without torch. Local.

// InitOptions::backend, read.
struct BackendWish {
  bool is_default = false;  // nothing was asked for
  std::string cpu;          // "gloo" or nothing
  std::string cuda;         // "nccl", "gloo" or nothing
};

// "" | "gloo" (both devices) | "nccl" (CUDA alone) | "cpu:gloo" | "cuda:nccl" | "cuda:gloo" and
// pairs of them, such as "cpu:gloo,cuda:nccl". Throws UsageError that lists what there is.
BackendWish read_backend(const std::string& text);

// "cpu:gloo,cuda:nccl": devices in this order.
std::string words_of(const BackendWish& wish);

// What is decided where nothing was asked for: Gloo for the CPU, and NCCL for CUDA unless there is
// a `problem` with it.
BackendWish default_backend(const std::string& problem);

// What a rank says of where it stands.
struct RankPlace {
  std::string host;
  std::vector<std::string> gpus;    // what it sees, in the order of device indices
  std::optional<int> local_rank;    // where its launcher tells
  std::optional<int> device_index;  // where its program tells
};

std::string text_of(const RankPlace& place);
RankPlace place_from(const std::string& text);

// The device index of every rank, or why they cannot be placed: the same on all ranks, since made
// of the same places. The index is the local rank, the position among the ranks of the host,
// divided by `ranks_per_device`; where ranks of a host see different GPUs, as Slurm and Kubernetes
// show each its own, the position among those that see the same. Never the global rank.
struct Placement {
  std::vector<int> device_indices;
  std::string problem;
};
Placement place_ranks(const std::vector<RankPlace>& places, int ranks_per_device);

}  // namespace lockstep
