// The device of each rank of a world: plain values and pure functions; no torch.
#pragma once

#include "harness/base/fields.h"

#include <map>
#include <string>
#include <vector>

namespace lockstep {

// The devices of one backend as one process sees them.
struct SeenDevices {
  std::vector<std::string> names;  // by index; unique, and the same in all processes
  std::string kind;                // for people: "GPU (NVIDIA H100 80GB HBM3)"
  std::string problem;             // why there is none; empty: there is
  // Other processes of the host have other devices, and no names to compare them by.
  bool is_own = false;
  static constexpr auto fields() {
    return std::tuple{field("names", &SeenDevices::names, at_most(1024, line_up_to(1024))),
                      field("kind", &SeenDevices::kind, line_up_to(1024)),
                      field("problem", &SeenDevices::problem, line_up_to(1024)),
                      field("is_own", &SeenDevices::is_own)};
  }
};
using DevicesByBackend = std::map<std::string, SeenDevices>;

// The place of one rank on its host's devices.
struct DeviceAssignment {
  int index = 0;  // of the device, among those the rank's process sees
  // Some ranks of its world share a device: the same value on all of its ranks.
  bool is_shared = false;
  bool is_on_one_host = true;  // the world
  std::string world;           // distinguishes worlds that are alive at once
  static constexpr auto fields() {
    return std::tuple{field("index", &DeviceAssignment::index, between(0, 1023)),
                      field("is_shared", &DeviceAssignment::is_shared),
                      field("is_on_one_host", &DeviceAssignment::is_on_one_host),
                      field("world", &DeviceAssignment::world, line_up_to(200))};
  }
};

// How many devices the ranks of a world have.
struct DevicesTaken {
  int count = 0;
  bool is_shared = false;  // by some of them
};

// For worlds whose ranks are all on this host: each rank has its own device if there are enough,
// else they share them in turn.
DevicesTaken devices_taken_here(const SeenDevices& seen, int size);
DeviceAssignment device_on_this_host(const SeenDevices& seen, int rank, int size,
                                     const std::string& world);

}  // namespace lockstep
