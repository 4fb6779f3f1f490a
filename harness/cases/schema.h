// The JSON schema of a scenario's case files, for editors and for programs that write cases.
#pragma once

#include "harness/cases/scenario.h"

namespace lockstep {

// Every field of the value may be left out, and has its default then; no other may be there. For a
// list of structs it says only that these are objects.
Json schema_of_case_file(const Scenario& scenario);

}  // namespace lockstep
