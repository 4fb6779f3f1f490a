// Generators of Programmes.
#pragma once

#include "scenarios/programs/case.h"

#include <rapidcheck.h>

namespace lockstep::scenarios::programs {

rc::Gen<Programme> programmes();

}  // namespace lockstep::scenarios::programs
