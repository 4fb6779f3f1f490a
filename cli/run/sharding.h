// The shard of a campaign that this machine runs.
#pragma once

#include "harness/cases/result.h"

namespace lockstep::cli {

// Parses --shard: "2/5", or "auto" for the environment of a scheduler or CI server: Slurm for the
// tasks of an array, GitLab for a job with `parallel`, CircleCI for one with `parallelism`. Throws
// UsageError, which names a missing or invalid variable.
RunShard shard_value(const std::string& text);

}  // namespace lockstep::cli
