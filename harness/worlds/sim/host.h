// The process that runs simulated worlds, one after another.
#pragma once

#include "harness/cases/scenario.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {
struct HostReport;
struct CaseAssignment;
}  // namespace lockstep

namespace lockstep::sim {

struct Host {
  // Blocks for the next case; nullopt at the end.
  std::function<std::optional<CaseAssignment>()> next;
  std::function<void(const HostReport&)> done;
  std::function<std::span<std::byte>(int rank, int size)> journal;
  std::filesystem::path scratch;
  std::atomic<int>& running;  // the rank that runs, or -1
  std::function<void(int rank)> redirect;
};

// Runs cases until there is no next one or one left frozen ranks behind. Returns the exit status;
// the process must then _exit, since ranks may be frozen in it.
int serve_host(const Host& host);

}  // namespace lockstep::sim
