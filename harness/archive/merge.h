// Merges several runs into one: the shards of one campaign, or whole runs that have no scenario and
// setting in common.
//
// Shards give what one run of the whole campaign would have found. Such a run stops a job at its
// first failing case while other shards continue: the failing case with the lowest number decides,
// and what a shard counted after it is left out again. Shards that kept going are counted in full,
// and each signature has the case with the lowest number. Two things differ. Times are added up, as
// if one machine had done everything. And every shard gives up a job that breaks its tier only
// after its own third inconclusive case, so that more of its cases may be counted, or fail.
#pragma once

#include "harness/cases/result.h"

namespace lockstep {

// Runs that cannot be merged: a sentence with the names of two runs that disagree.
struct MergeError : std::runtime_error {
  using runtime_error::runtime_error;
};

struct NamedRun {
  std::string name;  // for people: a file
  Run run;
};

// At least one run; whole ones keep their order. `missing_shards` says which shards were not given.
// The caller fills in program, folder and exit code. Throws MergeError.
Run merged(std::vector<NamedRun> runs);

}  // namespace lockstep
