// JUnit XML, as CI servers read it: one suite per family, one test case per scenario and setting.
// Names are unique and stable: no seed, no path, no time. tests/reports/junit_rules.cpp has the CI
// servers' rules.
#pragma once

#include "harness/cases/result.h"

#include <string>

namespace lockstep::reports {

// UTF-8, ends with a newline, well-formed whatever the findings hold: bytes that XML cannot carry
// are spelled "\x1b".
std::string junit(const Run& run);

}  // namespace lockstep::reports
