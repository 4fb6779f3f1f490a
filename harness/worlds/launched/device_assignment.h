// The device of each rank of a launched world. Pure functions of the processes' handshakes; no
// torch.
#pragma once

#include "harness/worlds/launched/remotes.h"

#include <functional>

namespace lockstep {

// All processes of a campaign, by rank. The returned value lives as long as they do.
struct LaunchedProcesses {
  int size = 1;
  std::function<const Handshake&(int rank)> at;
};

// Why ranks cannot be assigned devices of some backend, as one sentence for all of them, or "". It
// is "" if all see the same number of devices, or if none sees any and all know why, in which case
// nothing runs there. Ranks that see different numbers are a job that was set up wrongly: some
// would share devices and others not.
std::string device_assignment_problem(const LaunchedProcesses& all);

// The assignments of a world of the first `size` ranks on the devices of `backend`, which has no
// such problem. A device's index is the local rank: the launcher's where it sets one, else the
// number of lower ranks on the host. Where ranks of a host see different devices, because a
// launcher shows each its own, it is the position among the ranks that see the same. Where there
// are fewer devices than that, they are shared in turn. A process has one device for the whole
// campaign.
std::vector<DeviceAssignment> device_assignments_of(const LaunchedProcesses& all,
                                                    const std::string& backend, int size,
                                                    const std::string& world);

// For the first `size` ranks.
DevicesTaken devices_taken(const LaunchedProcesses& all, const std::string& backend, int size);

}  // namespace lockstep
