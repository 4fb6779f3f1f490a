// Ctrl-C, SIGTERM and a closed terminal.
#pragma once

#include <atomic>

namespace lockstep::cli {

// From now on the first of these signals turns the flag true, and the second ends the program with
// status 130 (its ranks die with it). Call it after lanes were made, so that no rank inherits it.
const std::atomic<bool>& watch_interrupts();

// Turns the flag true; the first signal is still the first.
void interrupt();

}  // namespace lockstep::cli
