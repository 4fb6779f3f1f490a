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
// A rank may be through with its last collective while others are not: a receiver of a broadcast,
// with the root still sending to the rest, or with the rest still connecting. Were it to exit then,
// they would see its connections close and throw "Connection closed by peer" for no fault of the
// program (seen in worlds of 3 within 25 cases of one broadcast). So ranks exit once all have
// returned. When one ended badly there is nothing to preserve, and nobody waits.
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
