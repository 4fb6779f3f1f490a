// Ctrl-C, SIGTERM and a closed terminal; and SIGUSR1.
#pragma once

#include <atomic>
#include <stdexcept>

namespace lockstep::cli {

// From now on the first of these signals turns the flag true, and the second ends the program with
// status 130 (its ranks die with it). Ranks do not inherit it: a zygote begins with default
// actions.
const std::atomic<bool>& watch_interrupts();

// The first of these signals came before there was anything to report.
class DrawingInterrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Turns the flag true; the first signal is still the first.
void interrupt();

// While one lives SIGUSR1 requests a status report instead of ending the program. At most one at a
// time, and none while lanes are made: their ranks keep SIGUSR1's default action.
class StatusRequests {
 public:
  StatusRequests();
  ~StatusRequests();
  StatusRequests(const StatusRequests&) = delete;
  StatusRequests& operator=(const StatusRequests&) = delete;

  // True if SIGUSR1 came since the last call.
  bool take();
};

}  // namespace lockstep::cli
