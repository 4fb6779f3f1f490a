// Generators of Erring cases.
#pragma once

#include "scenarios/errors/case.h"

#include <rapidcheck.h>

namespace lockstep::scenarios::errors {

// One to three lacks, no mistake.
rc::Gen<Erring> lacking();

// One mistake, and seldom a lack.
rc::Gen<Erring> erring();

}  // namespace lockstep::scenarios::errors
