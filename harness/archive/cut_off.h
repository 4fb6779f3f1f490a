// Runs that ended without saying so, killed or with the machine, and the cases that ran then.
//
// Note [Cut off]. A run holds a lock on its events.jsonl, which ends with its process; its last
// line is the event "end". So a file without that line and without a lock is of a run that was cut
// off. The cases that ran are those with a line before and none after.
#pragma once

#include "harness/cases/tier.h"

#include <filesystem>

namespace lockstep {

struct CutOff {
  struct Unfinished {
    Case c;
    Setting setting;
    int number = 1, of = 1;  // the case's place among its scenario's cases
  };
  std::filesystem::path folder;   // of the run
  std::vector<Unfinished> cases;  // in the order in which they began; at least one
};

// The newest run below `root`; empty where there is none.
std::filesystem::path newest_run(const std::filesystem::path& root);

// None for a run that ended or still runs, and for one that was killed between two cases. Canaries
// are left out.
std::optional<CutOff> read_cut_off(const std::filesystem::path& folder);

// The newest run below `root`, of the last twenty, that was cut off while a case ran.
std::optional<CutOff> newest_cut_off(const std::filesystem::path& root);

}  // namespace lockstep
