// The fields of a case that people see: among all of them nobody finds the ones that matter.
#pragma once

#include "harness/cases/scenario.h"

namespace lockstep {

// The value of a case for people, without the defaults that concern only simulated worlds.
Json displayed_value(const Case& c);

// The same; structs in lists are without_defaults.
Json displayed_value(const Scenario& scenario, const Case& c);

// The fields of `value` that differ from `defaults`, nested as they were; lists are compared as a
// whole.
Json fields_that_differ(const Json& value, const Json& defaults);

// The same of a case's value; structs in lists are without_defaults.
Json unlike_default(const Scenario& scenario, const Json& value);

// A case file with the fields that differ from the defaults, which are a part of the format.
std::string case_file(const Scenario& scenario, const SavedCase& saved);

// Writes out every field of what a case file says. A drawn case of an earlier version, with
// fields that the scenario has no more, stays as it is. Throws FieldError.
SavedCase written_out(const Scenario& scenario, const SavedCase& saved);

// `value`, of the list at `leaf`: of each struct its first field, which names it, and those that
// differ from a default one. Any other value as it is.
Json without_defaults(const Scenario& scenario, const Leaf& leaf, Json value);

}  // namespace lockstep
