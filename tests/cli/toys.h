// Scenarios that end in every way there is, for tests that drive the program from outside.
#pragma once

#include "harness/core/scenario.h"
#include "harness/worlds/subjects.h"

namespace lockstep::toys {

std::vector<Scenario> scenarios();

// With a "canary" that passes: a full run of these must be red.
// Three ways to fail, each of which needs several fields of a case to be so.
std::vector<Scenario> crates();

std::vector<Scenario> with_a_canary_that_passes();

// "toy" offers nothing, which is all that these programs need; "other" is just the same.
Subjects subjects();

}  // namespace lockstep::toys
