#include "harness/worlds/devices/devices.h"

#include "harness/base/characters.h"
namespace lockstep {

DevicesTaken devices_taken_here(const SeenDevices& seen, int size) {
  const int count = static_cast<int>(seen.names.size());
  if (seen.is_own || size <= count) return {.count = size, .is_shared = false};
  return {.count = count, .is_shared = true};
}

DeviceAssignment device_on_this_host(const SeenDevices& seen, int rank, int size,
                                     const std::string& world) {
  const int count = static_cast<int>(seen.names.size());
  return {
      .index = rank % count, .is_shared = devices_taken_here(seen, size).is_shared, .world = world};
}

}  // namespace lockstep
