// Cases that a command reads from files, as their scenarios read them.
#pragma once

#include "cli/known.h"

namespace lockstep::cli {

// `file` is where the name was found, for the error. Throws UsageError where there is no such
// scenario.
const Scenario& scenario_of(const Known& known, const std::string& name, const std::string& file);

// The scenario of a case file, and the case. Throws UsageError or FieldError.
std::pair<const Scenario&, SavedCase> read_case(const Known& known, const std::string& file);

}  // namespace lockstep::cli
