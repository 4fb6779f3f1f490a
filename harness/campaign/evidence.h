// The output of the ranks of a failing case, kept before the tier runs anything else.
#pragma once

#include "harness/cases/result.h"

namespace lockstep {

struct Evidence {
  std::filesystem::path logs;  // empty if the ranks wrote nothing
  int tail_rank = 0;
  // For the rank to blame: its last lines of output, at most 2 KiB; and where it was late or
  // crashed, its stack.
  std::string tail;
  std::filesystem::path tail_file;
  std::string stack;
  std::filesystem::path stack_file;
  // Where the ranks diverge: the call site of what each issued there, a line for each rank.
  std::vector<std::string> call_sites;
};

// The rank that explains a bad ending: one that was signalled or left before one that threw, that
// before one that is stuck, and among stuck ranks first one that waits for nobody; rank 0 where all
// returned.
int rank_to_blame(const History& history);

// Makes `tier` write its last case's output into `folder`. A tier that cannot leaves no evidence.
Evidence keep_evidence(Tier& tier, const std::filesystem::path& folder, const History& history);

void add_evidence(const Evidence& evidence, Failure& to);

}  // namespace lockstep
