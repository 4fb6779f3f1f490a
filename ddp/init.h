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
// Either a store, a rank and a world size are given, or they come from the environment that a
// launcher sets: torchrun, mpirun of Open MPI, MPICH or Intel MPI, Slurm's srun
// (ddp/meeting/launcher.h). A process that nothing has launched is a world of one. A world is never
// guessed: an environment that is half set or malformed is an error that names the variables, and
// no world of one.
struct InitOptions {
  // Where the ranks meet. Null: a c10d::TCPStore where the launcher's environment says, which is
  // MASTER_ADDR:MASTER_PORT wherever these are set.
  c10::intrusive_ptr<c10d::Store> store;

  // Position in [0, world_size) and number of ranks; both or neither. Neither: those of the
  // environment; not allowed beside an explicit store. Both, without a store: met at
  // MASTER_ADDR:MASTER_PORT.
  std::optional<int> rank;
  std::optional<int> world_size;

  // Which backend carries tensors of which device, in PyTorch's words; equal on all ranks.
  // - "": Gloo for CPU tensors, and NCCL for CUDA tensors where this process has a usable NCCL, and
  //   a GPU for each of its host's ranks. NCCL then connects, and touches the GPU, at the first
  //   collective of a CUDA tensor. backends_of() tells what was decided.
  // - "gloo": for both; CUDA tensors travel through pinned memory of the host. Any number of ranks
  //   may be on a GPU. libtorch_cuda is the program's to load.
  // - "nccl": for CUDA tensors, and none for CPU tensors.
  // - "cpu:gloo,cuda:nccl": each as it says, and so on. NCCL that is asked for connects here.
  // There is nothing else: the mpi and tcp of old tutorials do not exist.
  std::string backend;

  // The GPU of this rank, for NCCL: an index into those that this process sees. Unset: its local
  // rank divided by ranks_per_device; where ranks of a host see different GPUs, its position among
  // those that see the same. Never the global rank. group->getBoundDeviceId() tells.
  std::optional<int> device_index;

  // How many ranks may be on one GPU, positive, equal on all ranks. NCCL needs more than this for
  // several (docs/gpu.md), and is then for finding mistakes, not for speed.
  int ranks_per_device = 1;

  // The network interface, such as "eth0", that Gloo listens on. Empty: the one of `hostname`.
  std::string interface_name;

  // The address Gloo listens on, this host's own. Where it and interface_name are empty: the
  // interface that GLOO_SOCKET_IFNAME names, as for PyTorch; else loopback, so that nothing is open
  // to the network by accident, unless the environment tells of a meeting point on the network and
  // of ranks that may be on other hosts. Then it is this host's address on the way there, which
  // must not be loopback if there are other hosts (ddp/meeting/listening.h). Gloo itself never
  // guesses.
  std::string hostname;

  // Longest time for the rendezvous and for any one collective; positive. c10d's half hour keeps a
  // broken world alive for half an hour; five minutes is longer than any healthy step.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);

  // Gloo's worker threads, positive, equal on all ranks. Two, as c10d has: where cores are few,
  // small collectives of a single one wait milliseconds for the scheduler (bench/ddp_step.py: 3.0
  // ms a step of 8 k parameters with one, 0.9 with two). Collectives of one group may then finish
  // in another order than they were issued in; whoever needs them in order takes one.
  int threads = 2;
};

// Collective: every rank of the world calls it once; blocks until all have met and connected or the
// timeout has passed, and up to three seconds longer, in which all are told why they did not.
// Throws UsageError (what was given, what was expected) before anything is opened;
// DisagreementError, with one sentence on every rank, if ranks were told different world sizes or
// run other versions of Lockstep or PyTorch, or have different backends, if one cannot listen where
// it was told to or lacks the NCCL that was asked for, if a host has fewer GPUs than ranks, if a
// rank came twice (rank 0 too: the second one joins the first one's store), or if the store was
// used before (a stale file); and CommunicationError if nobody, or another program, is where the
// ranks are to meet, if the store or a peer is gone, or if ranks did not come, were not heard of
// again or did not connect, which are named. Who comes after a refusal, when the others and their
// store are gone, is told that no store answers. A world of one takes the same path; without a
// store and a launcher it meets in the process's own memory. torchrun prints what was thrown in its
// summary (ddp/meeting/launcher_report.h).
//
// Called twice in a process, give each call its own c10d::PrefixStore: keys are not reused.
// Source: torch.distributed.init_process_group for the variables, torchrun's
// TORCHELASTIC_USE_AGENT_STORE (every rank a client) and TORCHELASTIC_RESTART_COUNT included.
c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(const InitOptions& options = {});

// Position among the ranks of this host, for choosing a device. What the launcher says (LOCAL_RANK
// of torchrun, and the like); where it says nothing, as Kubeflow's PyTorchJob, ranks tell each
// other the names of their hosts in the group's store: the number of lower ranks on this host.
// Never the rank modulo something. Collective; blocks up to `timeout` for lower ranks that have not
// called it. Throws CommunicationError; UsageError if the group has no store and the answer is not
// known without.
int local_rank(const c10d::ProcessGroup& group,
               std::chrono::milliseconds timeout = std::chrono::minutes(5));

// What carries tensors of which device, and why there is no NCCL where none was asked for, such as
// "cpu:gloo (no nccl: this machine has no NVIDIA GPU, or no driver for it)"; the reason of groups
// that init_process_group() made. Local.
std::string backends_of(c10d::ProcessGroup& group);

// The ProcessGroup front of a backend that exists: the way in for wrapped, simulated or foreign
// backends. Rank and size are the backend's; it is registered for CPU tensors under the type of its
// own name ("gloo" as GLOO; a name c10d does not know as CUSTOM). `store` may be null.
// Local: does not block. Throws UsageError if there is no backend.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Backend>& backend, const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace lockstep
