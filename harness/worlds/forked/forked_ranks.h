// Ranks whose processes are forked for one case.
#pragma once

#include "harness/worlds/forked/kept_worlds.h"
#include "harness/worlds/forked/rendezvous.h"

namespace lockstep {

// The ranks of a case that run here.
struct RanksHere {
  int first = 0, count = 1;
  std::optional<DeviceAssignment> device = {};  // nothing: as for a world of this host
  // Called at the deadline, once the stacks of late processes were taken, before they are ended.
  std::function<void(const std::vector<std::pair<int, pid_t>>& late)> when_late = {};
};

// Forks them, and blocks until they and what they have started are gone. The reply's ranks are
// those that ran here. Ends all worlds that are kept, from whose processes those that the ranks
// leave running could not be distinguished.
CaseReply run_forked(const CaseAssignment& assignment, const RanksHere& here,
                     const ForkedRendezvous& rendezvous, Workplace& workplace, KeptWorlds& kept,
                     int stop_descriptor);

}  // namespace lockstep
