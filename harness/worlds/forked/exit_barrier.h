// A barrier for ranks that have finished, before they exit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep {

// Ranks that returned wait here for the others, in memory they share. All zero at the start.
//
// Note [Leaving together]
// A rank may have finished its last collective while others have not: a receiver of a broadcast,
// with the root still sending to the rest, or with the rest still connecting. If it exited then,
// they would see its connections close and throw "Connection closed by peer" for no fault of the
// program (seen in worlds of 3 within 25 cases of one broadcast). So ranks exit once all have
// returned. When one ended badly there is nothing to preserve, and no rank waits.
struct ExitBarrier {
  std::atomic<uint32_t> returned;
  void wait_for_others(int size, std::chrono::steady_clock::time_point until);
  void call_off();
};

}  // namespace lockstep
