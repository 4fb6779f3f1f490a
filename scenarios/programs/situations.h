// Situations that steps drawn one by one seldom make.
#pragma once

#include "scenarios/programs/case.h"

#include <rapidcheck.h>

namespace lockstep::scenarios::programs {

// True in one of so many.
rc::Gen<bool> one_in(size_t count);

// Joins, refused forwards and averages that round, in some of these programmes.
rc::Gen<Programme> with_situations(const rc::Gen<Programme>& programmes);

}  // namespace lockstep::scenarios::programs
