// A process that a launcher has started beside others: which one it is, and how they come together.
// No torch; launched.cpp is the one file here, but for commands/shard.cpp, that sees ddp/, whose
// rules for launchers are these.
#pragma once

#include "harness/world/launched/members.h"

#include <memory>
#include <optional>

namespace lockstep::cli {

struct LaunchedPlace {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  // where the launcher tells
};

// What the environment says: that of torchrun, mpirun, srun, Kubeflow, or of RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT set by hand. Throws UsageError for one that is half set, and where
// nothing has launched this process.
LaunchedPlace launched_place();

struct CameTogether {
  Hello own;
  std::vector<Member> members;  // of rank 0: ranks 1 and up
  Descriptor rank_zero;         // of the others: the connection to it
  std::shared_ptr<void> store;  // kept, so that who comes late or twice is told so
};

// Collective: every process of the launched world calls it. Blocks until all are there, at most
// `limit` and some seconds, and starts threads. Throws UsageError, with the reason and what was
// waited for, on every process that is there: a world that does not fill, two processes of one
// rank, other versions, another program, an address that cannot be reached, devices on which ranks
// cannot be seated. `program` and `devices` are what this process could play, and on what.
CameTogether come_together(const LaunchedPlace& place, std::chrono::milliseconds limit,
                           const Json& program, const DevicesByBackend& devices);

// For the launcher's summary, where it has one: why this process ends with another code than 0.
void tell_launcher(const std::string& sentence);

}  // namespace lockstep::cli
