// The cases of programs with a sampler.
#pragma once

#include "scenarios/sampler/acts.h"

#include <rapidcheck.h>

#include <vector>

namespace lockstep::scenarios {

// Every pair of acts between a save in mid-epoch and three draws.
std::vector<Acts> every_small_program();

rc::Gen<Acts> drawn_programs();

}  // namespace lockstep::scenarios
