#pragma once

#include "ddp/meeting/environment.h"

#include <optional>
#include <string>

namespace lockstep {

// Who started this process, and what it says of the world. Pure functions of an environment,
// without torch; Local; do not block.
//
// | launcher         | its traces                    | local rank and size           | meets at   |
// |------------------|-------------------------------|-------------------------------|------------|
// | torchrun, hand   | RANK WORLD_SIZE               | LOCAL_RANK LOCAL_WORLD_SIZE   | MASTER_*   |
// | Open MPI         | OMPI_COMM_WORLD_RANK _SIZE    | OMPI_COMM_WORLD_LOCAL_*       | loopback,  |
// |                  |                               |                               | namespace  |
// | hydra            | PMI_RANK PMI_SIZE             | MPI_LOCALRANKID _LOCALNRANKS  | MASTER_*   |
// | Slurm's srun     | SLURM_STEP_ID _PROCID _NTASKS | SLURM_LOCALID _TASKS_PER_NODE | first node |
//
// The first whose traces are there is it, from the top: mpirun in a Slurm job is mpirun. Where some
// of its variables are missing, that is an error that names them, whatever stands further down. A
// variable that is empty is missing. None of these is a process that stands alone: a world of one.
// Docs: docs/ddp.md, "Starting it".
enum class Launcher { kTorchrun, kOpenMpi, kHydra, kSlurm, kNone };

struct Launch {
  Launcher launcher = Launcher::kNone;
  Standing standing;
  // Position among the ranks of this host, and their number, where the launcher says so.
  std::optional<int> local_rank;
  std::optional<int> local_world_size;
};

// What messages call it, such as "Open MPI (mpirun)".
std::string name_of(Launcher launcher);

// Throws UsageError: a half-set environment with every variable that is missing and the launcher it
// looks like; a number that is none or out of range with what was found and expected.
Launch launch_from_environment(const EnvironmentLookup& lookup);

// Where the ranks of `launch` meet. MASTER_ADDR and MASTER_PORT (1 to 65535) count wherever they
// are set, and torchrun's have to be. Otherwise:
// - Open MPI: loopback, if all ranks are on this host; a port made of the job's PMIx namespace.
// - hydra: loopback, as above. It gives a job no name, so MASTER_PORT has to be set.
// - Slurm: the first host of SLURM_STEP_NODELIST; 15000 plus the last four digits of SLURM_JOB_ID.
// Throws UsageError that names what has to be set, and as above. Not to be asked of kNone.
MeetingPoint meeting_point_from_environment(const EnvironmentLookup& lookup, const Launch& launch);

}  // namespace lockstep
