// The programmes that are always tried.
#pragma once

#include "scenarios/programs/case.h"

namespace lockstep::scenarios::programs {

// The idioms of real training loops, each with every option that could matter to it.
std::vector<Programme> idioms();

}  // namespace lockstep::scenarios::programs
