#pragma once

#include "ddp/base/environment.h"

#include <optional>
#include <string>

namespace lockstep {

// The launcher that started this process, and the rank and world size that it gives. Pure functions
// of an environment, without torch; Local; do not block.
//
// | launcher         | its traces                    | local rank and size           | rendezvous |
// |------------------|-------------------------------|-------------------------------|------------|
// | torchrun, hand   | RANK WORLD_SIZE               | LOCAL_RANK LOCAL_WORLD_SIZE   | MASTER_*   |
// | Open MPI         | OMPI_COMM_WORLD_RANK _SIZE    | OMPI_COMM_WORLD_LOCAL_*       | loopback,  |
// |                  |                               |                               | namespace  |
// | hydra            | PMI_RANK PMI_SIZE             | MPI_LOCALRANKID _LOCALNRANKS  | MASTER_*   |
// | Slurm's srun     | SLURM_STEP_ID _PROCID _NTASKS | SLURM_LOCALID _TASKS_PER_NODE | first node |
//
// The first launcher from the top whose traces are there counts: mpirun in a Slurm job is mpirun.
// If some of its variables are missing, that is an error that names them, whatever stands further
// down. An empty variable counts as missing. A process without any of these traces is single: a
// world of one. Docs: docs/ddp.md, "Starting it".
enum class Launcher { kTorchrun, kOpenMpi, kHydra, kSlurm, kNone };

struct Launch {
  Launcher launcher = Launcher::kNone;
  RankAndSize position;
  // Position among the ranks of this host, and their number, where the launcher says so.
  std::optional<int> local_rank;
  std::optional<int> local_world_size;
};

// Its name in messages, such as "Open MPI (mpirun)".
std::string name_of(Launcher launcher);

// Throws UsageError for a half-set environment, with every variable that is missing and the
// launcher it looks like, and for a value that is no number or out of range, with what was found
// and expected.
Launch launch_from_environment(const EnvironmentLookup& lookup);

// The rendezvous address of the ranks of `launch`. MASTER_ADDR and MASTER_PORT (1 to 65535) count
// wherever they are set, and torchrun's have to be. Otherwise:
// - Open MPI: loopback, if all ranks are on this host; a port made of the job's PMIx namespace.
// - hydra: loopback, as above. It gives a job no name, so MASTER_PORT has to be set.
// - Slurm: the first host of SLURM_STEP_NODELIST; 15000 plus the last four digits of SLURM_JOB_ID.
// Throws UsageError that names what has to be set, and as above. Not to be called for kNone.
RendezvousAddress rendezvous_address_from_environment(const EnvironmentLookup& lookup,
                                                      const Launch& launch);

}  // namespace lockstep
