// Generators of Programmes, and the programmes that are always tried.
#pragma once

#include "scenarios/programs/case.h"

#include <rapidcheck.h>

namespace lockstep::scenarios::programs {

rc::Gen<Programme> programmes();

// The idioms of real training loops, each with every option that could matter to it.
std::vector<Programme> idioms();

}  // namespace lockstep::scenarios::programs
