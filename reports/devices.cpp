#include "reports/devices.h"

#include <algorithm>

namespace lockstep::reports {

std::string shared_text(const SharedDevices& shared) {
  const auto least = std::to_string(shared.world_least);
  const auto worlds = shared.world_least == shared.world_most
                          ? least
                          : least + "-" + std::to_string(shared.world_most);
  const auto bracket = shared.kind.find(" (");
  const auto word = shared.kind.substr(0, bracket) + (shared.count == 1 ? "" : "s");
  return "worlds of " + worlds + " share " + std::to_string(shared.count) + " " + word +
         (bracket == std::string::npos ? "" : shared.kind.substr(bracket));
}

const SharedDevices* shared_by(const Result& result, const Run& run) {
  for (const auto& shared : run.shared_devices)
    if (shared.backend == result.setting.backend && result.world_max >= shared.world_least)
      return &shared;
  return nullptr;
}

const SharedDevices* shared_on(const std::string& backend, const Run& run) {
  const auto found = std::find_if(run.shared_devices.begin(), run.shared_devices.end(),
                                  [&](const auto& shared) { return shared.backend == backend; });
  return found == run.shared_devices.end() ? nullptr : &*found;
}

}  // namespace lockstep::reports
