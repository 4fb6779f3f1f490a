#include "harness/world/devices.h"

namespace lockstep {

Json json_of(const SeenDevices& seen) {
  return {{"names", seen.names},
          {"kind", seen.kind},
          {"problem", seen.problem},
          {"is_own", seen.is_own}};
}

SeenDevices seen_devices_in(const Json& json) {
  return {.names = json.at("names").get<std::vector<std::string>>(),
          .kind = json.at("kind").get<std::string>(),
          .problem = json.at("problem").get<std::string>(),
          .is_own = json.at("is_own").get<bool>()};
}

DevicesTaken devices_taken_here(const SeenDevices& seen, int size) {
  const int count = static_cast<int>(seen.names.size());
  if (seen.is_own || size <= count) return {.count = size, .is_shared = false};
  return {.count = count, .is_shared = true};
}

DeviceSeat seat_on_this_host(const SeenDevices& seen, int rank, int size,
                             const std::string& world) {
  const int count = static_cast<int>(seen.names.size());
  return {
      .index = rank % count, .is_shared = devices_taken_here(seen, size).is_shared, .world = world};
}

}  // namespace lockstep
