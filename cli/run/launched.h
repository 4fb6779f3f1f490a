// A process that a launcher has started: its rank, and the rendezvous with the others. No torch.
// launched.cpp includes only those headers of ddp/ that read a launcher's variables, report to it
// and bind its port.
#pragma once

#include "harness/worlds/launched/remotes.h"

#include <memory>
#include <optional>

namespace lockstep::cli {

struct LaunchedPlace {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  // where the launcher sets it
};

// Reads the environment of torchrun, mpirun, srun, Kubeflow, or RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT set by hand. Throws UsageError for an incomplete one, and where no launcher has
// started this process.
LaunchedPlace launched_place();

struct LaunchedWorld {
  Handshake own;
  std::vector<RemoteProcess> members;  // on rank 0: ranks 1 and up
  Descriptor rank_zero;                // on the others: the connection to rank 0
  std::shared_ptr<void> store;         // kept, so that a late or duplicate process gets an error
};

// Collective: every process of the launched world calls it. Blocks until all have arrived, at most
// `limit` and some seconds, and starts threads. Throws UsageError, with the reason and what it
// waited for, on every process that arrived: missing ranks, two processes of one rank, other
// versions, another program, an address that cannot be reached, devices that cannot be assigned to
// ranks. `program` and `devices` describe what this process can run, and on which devices.
LaunchedWorld rendezvous_launched(const LaunchedPlace& place, std::chrono::milliseconds limit,
                                  const RunnableProgram& program, const DevicesByBackend& devices);

// For the launcher's summary, where it has one: why this process's exit code is not 0.
void report_failure(const std::string& sentence);

}  // namespace lockstep::cli
