// Kinds of programs of which a share is required among those that are drawn.
#pragma once

#include "harness/cases/scenario.h"
#include "scenarios/programs/case.h"

namespace lockstep::scenarios::programs {

std::vector<Label<ProgramSpec>> labels();

}  // namespace lockstep::scenarios::programs
