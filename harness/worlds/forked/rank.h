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

struct RankTask {
  const Scenario& scenario;
  const Case& c;
  const Subject& subject;
  int rank = 0;
  int size = 1;
  std::span<std::byte> journal;
  const ForkedRendezvous& rendezvous;
  const DeviceBackend* backend = nullptr;  // null: tensors are on the CPU
  std::optional<DeviceAssignment> device;  // on which device; nothing: as for a world of this host
  std::filesystem::path scratch;           // made by the first rank that wants it
  std::chrono::steady_clock::time_point deadline;
};

// The exit status of a rank whose program returned, and which left with the others; a program that
// ends its own process does not have it.
inline constexpr int kCaseHasRun = 66;

// Runs the program and records how it ended. Returns the exit status of the process: kCaseHasRun
// for a program that returned or refused, 1 for any other. The process must then _exit: the group
// is not destroyed, which blocks while a collective is pending.
int run_rank(const RankTask& task);

// One rank of a world that runs many cases: its group is made once; everything else is made for
// each case.
struct WarmRankParts {
  int rank = 0;
  int size = 1;
  std::span<std::byte> journal;
  const ForkedRendezvous& rendezvous;
  const DeviceBackend* backend = nullptr;
  std::filesystem::path scratch;
  // Blocks for the next case; nothing at the end.
  std::function<std::optional<CaseAssignment>()> next;
  // Receives what the case left behind in this process, a sentence each; the rank must not be used
  // again unless it is empty.
  std::function<void(const std::vector<std::string>& left)> done;
};

// Runs cases until there is no next one. Returns the exit status: 0, or 1 after a case that ended
// badly, which is recorded; the process must then _exit.
int serve_rank(const WarmRankParts& kept);

}  // namespace lockstep
