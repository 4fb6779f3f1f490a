// The life of one rank in a forked process, for one case or many.
#pragma once

#include "harness/worlds/devices/devices.h"
#include "harness/worlds/forked/conversation.h"
#include "harness/worlds/forked/rendezvous.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

class DeviceBackend;
struct Subject;

// The place of a rank: of one case, or of all those of a warm world.
struct ForkedPlace {
  int rank = 0;
  int size = 1;
  std::span<std::byte> journal;
  const ForkedRendezvous& rendezvous;
  const DeviceBackend* backend = nullptr;       // null: tensors are on the CPU
  std::optional<DeviceAssignment> device = {};  // nothing: as for a world of this host
  std::filesystem::path scratch;                // made by the first rank that wants it
};

// The exit status of a rank whose program returned, and which left with the others; a program that
// ends its own process does not have it.
inline constexpr int kCaseHasRun = 66;

// Runs the program and records how it ended. Returns the exit status of the process: kCaseHasRun
// for a program that returned or refused, 1 for any other. The process must then _exit: the group
// is not destroyed, which blocks while a collective is pending.
int run_rank(const CaseAssignment& assignment, const ForkedPlace& place,
             std::chrono::steady_clock::time_point deadline);

// One rank of a world that runs many cases: its group is made once; everything else is made for
// each case. `next` blocks for the next case; nothing at the end. `done` receives what the case
// left behind in this process, a sentence each; where that is not empty, the rank is not used
// again. Runs cases until there is no next one. Returns the exit status: 0, or 1 after a case that
// ended badly, which is recorded; the process must then _exit.
int serve_rank(const ForkedPlace& place, const std::function<std::optional<CaseAssignment>()>& next,
               const std::function<void(const std::vector<std::string>& left)>& done);

}  // namespace lockstep
