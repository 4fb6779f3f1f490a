// Explaining a smallest case: which of its fields may hold anything, and which nearest value of
// each other one passes.
#pragma once

#include "harness/cases/result.h"
#include "harness/cases/trials.h"

namespace lockstep {

// `smallest` shows the failure, and no smaller case does. Each field is replaced alone: numbers by
// their neighbours, ever farther, up to the largest that the scenario draws; words by the other
// choices; lists by those with an element changed or left out; all by drawn values. Injections and
// schedules that the case does not have are not tried. A field about which nothing is known, as its
// time did not come, has no note.
std::vector<FieldNote> explain(const Scenario& scenario, const Case& smallest, Search& search);

}  // namespace lockstep
