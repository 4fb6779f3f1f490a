#include "harness/world/devices.h"

#include "harness/core/characters.h"
namespace lockstep {

Json json_of(const SeenDevices& seen) {
  return {{"names", seen.names},
          {"kind", seen.kind},
          {"problem", seen.problem},
          {"is_own", seen.is_own}};
}

SeenDevices seen_devices_in(WireObject json) {
  constexpr size_t kDevicesMost = 1024, kNameMost = 1024;
  SeenDevices seen{.names = {},
                   .kind = json.line("kind", kNameMost),
                   .problem = json.line("problem", kNameMost),
                   .is_own = json.flag("is_own")};
  for (const Json& name : json.list("names", kDevicesMost)) {
    if (!name.is_string() || !is_one_line(name.get_ref<const std::string&>()))
      json.refuse("names", name, "a line of text for each");
    seen.names.push_back(name.get<std::string>());
  }
  json.nothing_else();
  return seen;
}

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
