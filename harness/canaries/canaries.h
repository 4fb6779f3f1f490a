// The canaries of every full run: one for each kind of judgement.
#pragma once

#include "harness/campaign/canary.h"

namespace lockstep {

// The one that fails in any world, in this setting and on so many ranks.
Canary canary_of_any_world(const Setting& setting, int world_size = 2);

// Those of simulated worlds, where a deadlock costs no deadline, for a run that judges this
// subject. None of them calls it.
std::vector<Canary> canaries_of_simulated_worlds(const std::string& subject);

}  // namespace lockstep
