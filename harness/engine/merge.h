// One run out of several: of the shards of one campaign, or of whole runs that have no scenario and
// setting in common.
//
// Shards give what one run of the whole campaign would have found. That stops a job at its first
// failing case while other shards go on: the failing case with the lowest number decides, and what
// a shard counted behind it is left out again. Two things differ. Times are added up, as if one
// machine had done all. And a job that breaks its tier is given up after its third inconclusive
// case in every shard by itself, so that more of its cases may be counted, or fail.
#pragma once

#include "harness/core/result.h"

namespace lockstep {

// What cannot be put together: a sentence with the names of two runs that do not agree.
struct MergeError : std::runtime_error {
  using runtime_error::runtime_error;
};

struct NamedRun {
  std::string name;  // for people: a file
  Run run;
};

// At least one run; whole ones keep their order. `missing_shards` says which shards were not given.
// Program, folder and exit code are the caller's to fill in. Throws MergeError.
Run merged(std::vector<NamedRun> runs);

}  // namespace lockstep
