// Every scenario there is, in teaching order. The list is explicit: a file that registered itself
// from a static library would vanish without a word.
#pragma once

#include "harness/core/scenario.h"

namespace lockstep {

std::vector<Scenario> catalogue();

namespace scenarios {

Scenario sampler_partitions_the_dataset();
Scenario gradients_match_single_process();
Scenario canary_every_rank_is_rank_zero();

}  // namespace scenarios
}  // namespace lockstep
