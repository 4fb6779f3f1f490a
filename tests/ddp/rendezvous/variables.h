#pragma once

#include "ddp/base/environment.h"

#include <map>
#include <set>
#include <string>

namespace lockstep::testing {

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Variables& variables);

// The variables that some launcher sets, in numbers that no other one has here, so that their
// origin is seen.
extern const Variables kTorch, kOpenMpi, kHydra, kSlurm;

// Returns how ddp/rendezvous/launcher.h reads these: "torchrun 1 of 4, here 0 of 2, at
// 10.0.0.1:29500", "alone", "lacks" and the names of what is missing, "pmix", or another sentence
// as it is.
std::string read(const Variables& variables);

// " A B"
std::string joined(const std::set<std::string>& names);

}  // namespace lockstep::testing
