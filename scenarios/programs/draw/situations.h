// Situations that steps drawn one by one seldom make.
#pragma once

#include "scenarios/programs/case.h"

#include <rapidcheck.h>

namespace lockstep::scenarios::programs {

// True in one of so many.
rc::Gen<bool> one_in(size_t count);

// Joins, refused forwards, averages that round, penalties of plain models, and models that ranks
// use in different orders, in some of these programs.
rc::Gen<ProgramSpec> with_situations(const rc::Gen<ProgramSpec>& programs);

}  // namespace lockstep::scenarios::programs
