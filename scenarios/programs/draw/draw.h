// Generators of programs.
#pragma once

#include "scenarios/programs/case.h"

#include <rapidcheck.h>

namespace lockstep::scenarios::programs {

rc::Gen<ProgramSpec> program_specs();

}  // namespace lockstep::scenarios::programs
