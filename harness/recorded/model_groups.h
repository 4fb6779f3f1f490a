// Ranks of which some train one model and others another one: each in a process group of its own.
#pragma once

#include "harness/recorded/recorded_run.h"

namespace lockstep::recorded {

// The ranks of one group, as a run in which they are numbered from 0, with their numbers in the
// whole world.
struct GroupRun {
  std::vector<int> ranks;
  RecordedRun run;
};

// The groups of a run in which each rank wrapped all its models for the ranks of one group, so that
// every rank is in one of them, but those that train nothing. Empty where all ranks train together,
// or hold parts of a model.
std::vector<GroupRun> runs_of_groups(const RecordedRun& run);

// The ranks of a world of this size that are in none of these groups.
std::vector<int> ranks_beside(const std::vector<GroupRun>& groups, int world);

}  // namespace lockstep::recorded
