// One case in a simulated world, in this process.
#pragma once

#include "harness/worlds/forked/conversation.h"
#include "harness/worlds/sim/chooser.h"
#include "harness/worlds/sim/rank_threads.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::sim {

struct SimTask {
  RankThreads& rank_threads;                   // its threads are used by one case after another
  const CaseAssignment& assignment;            // its time limit is one of virtual time
  std::vector<std::span<std::byte>> journals;  // by rank
  std::filesystem::path scratch;               // made by the first rank that wants it
  bool refuses_threads = false;                // that a rank starts, in collectives: Turns
  // The rank that runs, for the process that finds this one dead.
  std::atomic<int>& running;
  // Called in the rank's thread, before it runs: redirects its output.
  std::function<void(int rank)> redirect;
};

struct SimReport {
  std::vector<std::vector<std::string>> left;  // by rank: what it left unfinished
  std::vector<Choice> choices;                 // of the rank that runs next
  // Frozen threads are left in this process, which must not run another case.
  bool has_frozen_ranks = false;
};

// Runs the case and records how every rank ended. When no rank can run any more, the ranks that
// wait and the rank that they wait for are `stuck`; no clock decides this.
SimReport run_simulated(const SimTask& task);

}  // namespace lockstep::sim
