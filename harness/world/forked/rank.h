// One rank's life in a process forked for one case.
#pragma once

#include "harness/core/scenario.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <span>

namespace lockstep {

struct Subject;

// Where ranks that returned wait for the others, in memory they share. All zero at the start.
//
// Note [Leaving together]
// A rank that returned has sent all that its last collective sends, but may not have read all that
// its peers send it. Were it to exit then, the kernel would reset those connections, and a peer
// still in that collective would see "Connection reset by peer" instead of its result. So ranks
// exit once all have returned; when one ended badly there is nothing to preserve, and nobody waits.
struct Meeting {
  std::atomic<uint32_t> returned;
  void wait_for_others(int size, std::chrono::steady_clock::time_point until);
  void call_off();
};

struct RankTask {
  const Scenario& scenario;
  const Case& c;
  const Subject& subject;
  int rank = 0;
  int size = 1;
  std::span<std::byte> journal;
  std::span<std::byte> store;
  Meeting& meeting;
  std::filesystem::path scratch;  // made by the first rank that wants it
  std::chrono::steady_clock::time_point deadline;
};

// Runs the program and records how it ended. Returns the exit status of the process: 0 for a
// program that returned or refused, 1 for any other. The process must then _exit: the group is not
// destroyed, which blocks while a collective is pending.
int run_rank(const RankTask& task);

}  // namespace lockstep
