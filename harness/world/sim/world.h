// One case in a simulated world, in this process.
#pragma once

#include "harness/core/scenario.h"
#include "harness/world/sim/chooser.h"
#include "harness/world/sim/crew.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {
struct Subject;
}

namespace lockstep::sim {

struct SimTask {
  Crew& crew;  // its threads are used by one case after another
  const Scenario& scenario;
  const Case& c;
  const WorldSpec& spec;  // of the case
  const Subject& subject;
  std::vector<std::span<std::byte>> journals;  // by rank
  std::filesystem::path scratch;               // made by the first rank that wants it
  std::chrono::milliseconds limit{};           // of virtual time
  bool call_sites = false;                     // on record
  // The rank that runs, for whoever finds this process dead.
  std::atomic<int>& running;
  // In the rank's thread, before it runs: where its output goes.
  std::function<void(int rank)> redirect;
};

struct SimReport {
  std::vector<std::vector<std::string>> left;  // by rank: what it left under way
  std::vector<Choice> choices;                 // of who runs next
  // Threads that will never run again are left in this process, which must not play another case.
  bool has_frozen_ranks = false;
};

// Plays the case and records how every rank ended. A rank whose peers wait for it and will never
// have it, since nobody can run any more, is `stuck`, and so are they: no clock says so.
SimReport play_simulated(const SimTask& task);

}  // namespace lockstep::sim
