// Every scenario there is, in teaching order. The list, catalogue.def, is explicit: a file that
// registered itself from a static library would vanish without a word.
#pragma once

#include "harness/cases/scenario.h"

namespace lockstep {

std::vector<Scenario> catalogue();

// Throws std::out_of_range where there is none of that name.
Scenario scenario_in_catalogue(const std::string& name);

}  // namespace lockstep
