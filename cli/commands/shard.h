// The command `shard`, of programs that have Lockstep's own sampler.
#pragma once

#include "cli/main.h"

namespace lockstep::cli {

void add_shard(CLI::App& app, int& status);

}  // namespace lockstep::cli
