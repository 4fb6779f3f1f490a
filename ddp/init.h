#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace lockstep {

// Process groups: how W processes find each other and get a c10d::ProcessGroup on Gloo.
//
// The caller gives a store, a rank and a world size, or they come from the environment that a
// launcher sets: torchrun, mpirun of Open MPI, MPICH or Intel MPI, Slurm's srun
// (ddp/rendezvous/launcher.h). A process without a launcher is a world of one. A world is never
// guessed: an incomplete or malformed environment is an error that names the variables, not a world
// of one.
struct InitOptions {
  // The store of the rendezvous. Null: a c10d::TCPStore at the address that the launcher's
  // environment gives, which is MASTER_ADDR:MASTER_PORT wherever these are set.
  c10::intrusive_ptr<c10d::Store> store;

  // Position in [0, world_size) and number of ranks; both or neither. Neither: those of the
  // environment; not allowed with an explicit store. Both, without a store: the rendezvous is at
  // MASTER_ADDR:MASTER_PORT.
  std::optional<int> rank;
  std::optional<int> world_size;

  // The backend for each device's tensors, in PyTorch's syntax; equal on all ranks.
  // - "": Gloo for CPU tensors, and NCCL for CUDA tensors where this process has a usable NCCL, and
  //   a GPU for each of its host's ranks. NCCL then connects, and touches the GPU, at the first
  //   collective of a CUDA tensor. backends_of() returns the choice.
  // - "gloo": for both; CUDA tensors are staged in pinned host memory. Any number of ranks may
  //   share a GPU. The program must load libtorch_cuda.
  // - "nccl": for CUDA tensors, and none for CPU tensors.
  // - "cpu:gloo,cuda:nccl": each as it says, and so on. NCCL that is named connects at once.
  // No other name is accepted: the mpi and tcp of old tutorials do not exist.
  std::string backend;

  // The GPU of this rank, for NCCL: an index into those that this process sees. Unset: its local
  // rank divided by ranks_per_device; if ranks of a host see different GPUs, its position among the
  // ranks that see the same GPUs. Never the global rank. group->getBoundDeviceId() returns it.
  std::optional<int> device_index;

  // How many ranks may share one GPU, positive, equal on all ranks. For several, NCCL needs more
  // settings than this (docs/gpu.md) and serves for finding bugs, not for speed.
  int ranks_per_device = 1;

  // The network interface, such as "eth0", that Gloo listens on. Empty: the one of `hostname`.
  std::string interface_name;

  // The address of this host that Gloo listens on. If it and interface_name are empty: the
  // interface that GLOO_SOCKET_IFNAME names, as for PyTorch; else loopback, so that nothing is open
  // to the network by accident, unless the environment gives a rendezvous address on the network
  // and ranks that may be on other hosts. Then it is this host's address on the route there, which
  // must not be loopback if there are other hosts (ddp/rendezvous/listening.h). Gloo itself never
  // guesses.
  std::string hostname;

  // Longest time for the rendezvous and for any one collective; positive. Unset: c10d's, half an
  // hour for the rendezvous and over Gloo, ten minutes over NCCL. A rank that is gone is found at
  // once either way; this limits how long a rank may be late, as one that downloads or evaluates
  // alone.
  std::optional<std::chrono::milliseconds> timeout;

  // Gloo's worker threads, positive, equal on all ranks. Two, as in c10d: with few cores, small
  // collectives on a single thread wait milliseconds for the scheduler (bench/ddp_step.py: 3.0 ms a
  // step of 8 k parameters with one, 0.9 with two). Collectives of one group may then finish in
  // another order than they were issued in; set one where the order matters.
  int threads = 2;
};

// Collective: every rank of the world calls it once; blocks until the rendezvous is complete and
// all are connected or the timeout has passed, and up to five seconds longer, in which all receive
// the reason for a failure. Throws UsageError (what was given, what was expected) before anything
// is opened; DisagreementError, with the same sentence on every rank, if ranks were given different
// world sizes, run different versions of Lockstep or PyTorch or have different backends, if one
// cannot listen on the address it was given or lacks the NCCL that was requested, if a host has
// fewer GPUs than ranks, if a rank came twice (rank 0 too: the second one joins the first one's
// store), or if the store was used before (a stale file); and CommunicationError if nothing, or
// another program, answers at the rendezvous address, if the store or a peer is gone, or if ranks
// did not come, fell silent or did not connect, which are named. A rank that comes after a refusal,
// when the others and their store are gone, throws that no store answers. A world of one takes the
// same path; without a store and a launcher its store is in the process's own memory. torchrun
// prints the error in its summary (ddp/launcher_report.h).
//
// To call it twice in a process, give each call its own c10d::PrefixStore: keys are not reused.
// Source: torch.distributed.init_process_group for the variables, torchrun's
// TORCHELASTIC_USE_AGENT_STORE (every rank a client) and TORCHELASTIC_RESTART_COUNT included.
c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(const InitOptions& options = {});

// Position among the ranks of this host, for choosing a device: the launcher's value (LOCAL_RANK of
// torchrun, and the like); if the launcher sets none, as Kubeflow's PyTorchJob, the number of lower
// ranks on this host, by host names that ranks exchange in the group's store. Never the rank modulo
// something. Collective; blocks up to `timeout` for lower ranks that have not called it. Throws
// CommunicationError; UsageError if the launcher sets none and the group has no store.
int local_rank(const c10d::ProcessGroup& group,
               std::chrono::milliseconds timeout = std::chrono::minutes(30));

// The backend for each device's tensors, and, for groups that init_process_group() made, why there
// is no NCCL if none was requested, such as "cpu:gloo (no nccl: this machine has no NVIDIA GPU, or
// no driver for it)". Local.
std::string backends_of(c10d::ProcessGroup& group);

// Makes a ProcessGroup of an existing backend: for wrapped, simulated or foreign backends. Rank and
// size are the backend's; it is registered for CPU tensors under the type of its own name ("gloo"
// as GLOO; a name c10d does not know as CUSTOM). `store` may be null.
// Local: does not block. Throws UsageError if there is no backend.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Backend>& backend, const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace lockstep
