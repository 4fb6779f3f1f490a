// Which device each rank of a world has: plain values and pure functions; no torch.
#pragma once

#include "harness/core/json.h"

#include <map>
#include <string>
#include <vector>

namespace lockstep {

// The devices of one backend as one process sees them.
struct SeenDevices {
  std::vector<std::string> names;  // by index; one name in all processes, and of one device alone
  std::string kind;                // for people: "GPU (NVIDIA H100 80GB HBM3)"
  std::string problem;             // why there is none; empty: there is
  // Other processes of the host have others, which have no names to be compared by.
  bool is_own = false;
};
using DevicesByBackend = std::map<std::string, SeenDevices>;

Json json_of(const SeenDevices& seen);
SeenDevices seen_devices_in(const Json& json);

// The place of one rank on its host's devices.
struct DeviceSeat {
  int index = 0;  // of the device, among those that the rank's process sees
  // Some ranks of its world share a device: the same on all of its ranks.
  bool is_shared = false;
  bool is_on_one_host = true;  // the world
  std::string world;           // tells worlds apart that are alive at once
};

// Which devices the ranks of a world have.
struct DevicesTaken {
  int count = 0;
  bool is_shared = false;  // by some of them
};

// Of worlds all of whose ranks are on this host: each rank has a device of its own if there are
// enough, else they take turns in sharing them.
DevicesTaken devices_taken_here(const SeenDevices& seen, int size);
DeviceSeat seat_on_this_host(const SeenDevices& seen, int rank, int size, const std::string& world);

}  // namespace lockstep
