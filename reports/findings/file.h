// Reads the findings of a run's file, as json.cpp writes them.
#pragma once

#include "harness/verdict/verdict.h"
#include "reports/json_at.h"

namespace lockstep::reports {

// Throws FieldError where one is not well-formed. One that an earlier version wrote has a text
// alone, whose first line is the diagnosis.
Findings findings_of(const At& at);

}  // namespace lockstep::reports
