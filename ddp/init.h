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
// Either a store, a rank and a world size are given, or they come from the environment a launcher
// such as torchrun sets. A world is never guessed: an environment that is half set or malformed is
// an error that names the variable, and never becomes a world of one.
struct InitOptions {
  // Where the ranks meet. Null: a c10d::TCPStore at MASTER_ADDR:MASTER_PORT of the environment.
  c10::intrusive_ptr<c10d::Store> store;

  // Position in [0, world_size) and number of ranks; both or neither. Neither: RANK and WORLD_SIZE
  // of the environment; not allowed beside an explicit store.
  std::optional<int> rank;
  std::optional<int> world_size;

  // The network interface, such as "eth0", that Gloo listens on. Empty: the one of `hostname`.
  std::string interface_name;

  // The address Gloo listens on. Loopback unless told otherwise: nothing is open to the network by
  // accident, and Gloo never guesses. Across hosts, give this host's own address or an interface.
  std::string hostname = "127.0.0.1";

  // Longest time for the rendezvous and for any one collective; positive. c10d's half hour keeps a
  // broken world alive for half an hour; five minutes is longer than any healthy step.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);

  // Gloo's worker threads, positive, equal on all ranks. Two, as c10d has: where cores are few,
  // small collectives of a single one wait milliseconds for the scheduler (bench/ddp_step.py: 3.0
  // ms a step of 8 k parameters with one, 0.9 with two). Collectives of one group may then finish
  // in another order than they were issued in; whoever needs them in order takes one.
  int threads = 2;
};

// Collective: every rank of the world calls it once; blocks until all have met or the timeout has
// passed. Throws UsageError (what was given, what was expected) before anything is opened;
// DisagreementError, with one sentence on every rank, if ranks were told different world sizes, if
// a rank came twice, or if the store was used before (a stale file); and CommunicationError if the
// store or a peer cannot be reached. A world of one takes the same path.
//
// Called twice in a process, give each call its own c10d::PrefixStore: keys are not reused.
// Source: torch.distributed.init_process_group for the variables, torchrun's
// TORCHELASTIC_USE_AGENT_STORE (every rank a client) and TORCHELASTIC_RESTART_COUNT included.
c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(const InitOptions& options = {});

// The ProcessGroup front of a backend that exists: the way in for wrapped, simulated or foreign
// backends. Rank and size are the backend's; it is registered for CPU tensors under the type of its
// own name ("gloo" as GLOO; a name c10d does not know as CUSTOM). `store` may be null.
// Local: does not block. Throws UsageError if there is no backend.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Backend>& backend, const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace lockstep
