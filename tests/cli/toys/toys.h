// Scenarios that end in every way there is, for tests that drive the program from outside.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/subjects.h"

namespace lockstep::toys {

std::vector<Scenario> scenarios();

// Three ways to fail, each of which needs several fields of a case to be so.
std::vector<Scenario> crates();

// They require shares of their cases, of which "missed" draws too few; "plain" does not use a
// field.
std::vector<Scenario> kinds_of_cases();

// With a "canary" that passes: a full run of these must be red.
std::vector<Scenario> with_a_canary_that_passes();

// "toy" offers nothing, which is all that these programs need; "other" is just the same.
Subjects subjects(const std::string& first);

}  // namespace lockstep::toys
