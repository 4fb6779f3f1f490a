// Which shard of a campaign this machine is.
#pragma once

#include "harness/core/result.h"

namespace lockstep::cli {

// What --shard says: "2/5", or "auto" for what a scheduler or CI server has set in the environment:
// Slurm for the tasks of an array, GitLab for a job with `parallel`, CircleCI for one with
// `parallelism`. Throws UsageError, which names a variable that is missing or does not fit.
RunShard shard_value(const std::string& text);

}  // namespace lockstep::cli
