// Which device each rank of a launched world has. Pure functions of what its processes said of
// themselves; no torch.
#pragma once

#include "harness/world/launched/members.h"

#include <functional>

namespace lockstep {

// All processes of a campaign, by rank. What it returns is alive as long as they are.
struct Launchees {
  int size = 1;
  std::function<const Hello&(int rank)> at;
};

// Why ranks cannot be seated on the devices of some backend, as a sentence for all of them, or "":
// that all see as many, or that none sees any and all know why, in which case nothing is played
// there. Ranks that see other numbers are a job that was put together wrongly, and would share here
// what they have for themselves there.
std::string seating_problem(const Launchees& all);

// The seats of a world of the first `size` ranks on the devices of `backend`, of which there is no
// problem. A device's index is the local rank: the launcher's where it tells, else the number of
// lower ranks on the host. Where ranks of a host see different devices, as a launcher shows each
// its own, it is the position among those that see the same. Where there are fewer devices than
// that they are shared in turns. A process has one device for the whole campaign.
std::vector<DeviceSeat> seats_of(const Launchees& all, const std::string& backend, int size,
                                 const std::string& world);

// Of the first `size` ranks.
DevicesTaken devices_taken(const Launchees& all, const std::string& backend, int size);

}  // namespace lockstep
