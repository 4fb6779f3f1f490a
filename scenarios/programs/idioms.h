// The programmes that are always tried.
#pragma once

#include "scenarios/programs/case.h"

namespace lockstep::scenarios::programs {

// The idioms of real training loops, each with every option that could matter to it.
std::vector<Programme> idioms();

// Those of them with a join.
std::vector<Programme> uneven_inputs();

// Those with penalties of plain models, with averages that round, and with passes through several
// models.
std::vector<Programme> plain_penalties();
std::vector<Programme> rounded_averages();
std::vector<Programme> several_models_in_one_pass();

}  // namespace lockstep::scenarios::programs
