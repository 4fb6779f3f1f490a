#include "cli/devices.h"

#include <algorithm>
#include <set>

namespace lockstep::cli {

namespace {

std::set<int> world_sizes(const std::vector<Job>& jobs, const std::string& backend) {
  std::set<int> sizes;
  for (const auto& job : jobs) {
    if (job.setting.backend != backend) continue;
    for (size_t index = 0; index < job.cases.size(); ++index)
      if (job.shard.has(static_cast<int64_t>(index) + 1)) sizes.insert(job.cases.world_size(index));
  }
  return sizes;
}

}  // namespace

DevicesByBackend devices_for(const std::vector<Job>& jobs, const Known& known) {
  DevicesByBackend devices;
  for (const auto& backend : known.backends)
    if (backend.device && std::any_of(jobs.begin(), jobs.end(), [&](const Job& job) {
          return job.setting.backend == backend.name;
        }))
      devices[backend.name] = devices_seen(backend);
  return devices;
}

void leave_out_those_without_devices(std::vector<Job>& jobs, const DevicesByBackend& devices) {
  for (auto& job : jobs) {
    const auto seen = devices.find(job.setting.backend);
    if (seen == devices.end() || seen->second.problem.empty() || job.cases.empty()) continue;
    job.cases = {};
    job.left_out = seen->second.problem;
  }
}

std::vector<SharedDevices> shared_devices_of(const std::vector<Job>& jobs,
                                             const DevicesByBackend& devices, int size_most,
                                             const TakenBySize& taken) {
  std::vector<SharedDevices> all;
  for (const auto& [backend, seen] : devices) {
    SharedDevices shared{.backend = backend, .kind = seen.kind, .world_least = 0};
    for (const int size : world_sizes(jobs, backend)) {
      if (!seen.problem.empty() || size > size_most) continue;
      const auto of_world = taken(backend, size);
      if (!of_world.is_shared) continue;
      if (shared.world_least == 0) shared.world_least = size;
      shared.world_most = size;
      shared.count = of_world.count;
    }
    if (shared.world_least > 0) all.push_back(shared);
  }
  return all;
}

}  // namespace lockstep::cli
