// The programs that are always tried.
#pragma once

#include "scenarios/programs/case.h"

namespace lockstep::scenarios::programs {

// The idioms of real training loops, each with every option that could matter to it.
std::vector<ProgramSpec> idioms();

// Those of them with a join.
std::vector<ProgramSpec> uneven_inputs();

// Those with penalties of plain models, with averages that round, and with passes through several
// models.
std::vector<ProgramSpec> plain_penalties();
std::vector<ProgramSpec> rounded_averages();
std::vector<ProgramSpec> several_models_in_one_pass();

}  // namespace lockstep::scenarios::programs
