// What the ranks of a failing case wrote, kept before the tier plays anything else.
#pragma once

#include "harness/core/result.h"

namespace lockstep {

struct Evidence {
  std::filesystem::path logs;  // empty if the ranks wrote nothing
  int tail_rank = 0;
  // The last lines of the rank to blame, at most 2 KiB; of one that was late, where it stood.
  std::string tail;
  std::filesystem::path tail_file;
  // Where the ranks part: from where each issued what it did there, a line a rank.
  std::vector<std::string> call_sites;
};

// The rank that explains a bad ending: one that was signalled or left before one that threw, that
// before one that is stuck, of these one that waits for nobody first; rank 0 where all returned.
int rank_to_blame(const History& history);

// Has `tier` write its last case's output into `folder`. A tier that cannot leaves no evidence.
Evidence keep_evidence(Tier& tier, const std::filesystem::path& folder, const History& history);

}  // namespace lockstep
