#include "harness/worlds/launched/device_assignment.h"

#include <set>

namespace lockstep {

namespace {

const SeenDevices& seen_by(const Handshake& process, const std::string& backend) {
  static const SeenDevices kNothing{
      .names = {}, .kind = "", .problem = "it was started without this backend", .is_own = false};
  const auto seen = process.devices.find(backend);
  return seen == process.devices.end() ? kNothing : seen->second;
}

std::string what_it_sees(const Handshake& process, const std::string& backend) {
  const auto& seen = seen_by(process, backend);
  if (!seen.problem.empty()) return name_of(process) + " sees none (" + seen.problem + ")";
  return name_of(process) + " sees " + std::to_string(seen.names.size());
}

int index_of(const LaunchedProcesses& all, const std::string& backend, int rank) {
  const Handshake& own = all.at(rank);
  const auto& names = seen_by(own, backend).names;
  const auto see_the_same = [&](const Handshake& one) {
    const auto& other = seen_by(one, backend);
    return other.is_own == seen_by(own, backend).is_own && other.names == names;
  };
  bool all_see_the_same = true;
  int position = 0;
  for (int other = 0; other < all.size; ++other) {
    const Handshake& one = all.at(other);
    if (one.host != own.host) continue;
    if (!see_the_same(one))
      all_see_the_same = false;
    else if (other < rank)
      ++position;
  }
  const int place = all_see_the_same ? own.local_rank.value_or(position) : position;
  return place % static_cast<int>(names.size());
}

}  // namespace

std::string device_assignment_problem(const LaunchedProcesses& all) {
  std::set<std::string> backends;
  for (int rank = 0; rank < all.size; ++rank)
    for (const auto& [backend, seen] : all.at(rank).devices) backends.insert(backend);
  for (const auto& backend : backends)
    for (int rank = 1; rank < all.size; ++rank) {
      const Handshake &zero = all.at(0), &one = all.at(rank);
      if (seen_by(zero, backend).names.size() == seen_by(one, backend).names.size()) continue;
      return "the processes do not see as many devices of the backend " + backend +
             " as each other: " + what_it_sees(one, backend) + ", and " +
             what_it_sees(zero, backend);
    }
  return "";
}

std::vector<DeviceAssignment> device_assignments_of(const LaunchedProcesses& all,
                                                    const std::string& backend, int size,
                                                    const std::string& world) {
  std::set<std::string> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.insert(all.at(rank).host);
  const bool is_shared = devices_taken(all, backend, size).is_shared;
  std::vector<DeviceAssignment> assignments;
  for (int rank = 0; rank < size; ++rank)
    assignments.push_back({.index = index_of(all, backend, rank),
                           .is_shared = is_shared,
                           .is_on_one_host = hosts.size() == 1,
                           .world = world});
  return assignments;
}

DevicesTaken devices_taken(const LaunchedProcesses& all, const std::string& backend, int size) {
  std::set<std::string> taken;
  for (int rank = 0; rank < size; ++rank) {
    const auto& seen = seen_by(all.at(rank), backend);
    const auto index = static_cast<size_t>(index_of(all, backend, rank));
    taken.insert(seen.is_own ? "of rank " + std::to_string(rank) : seen.names[index]);
  }
  const auto count = static_cast<int>(taken.size());
  return {.count = count, .is_shared = count < size};
}

}  // namespace lockstep
