// Checks what the readers of JUnit XML require of a file.
#pragma once

#include <string>
#include <vector>

namespace lockstep::reports {

// A sentence for each rule that `xml` breaks; none if every reader named in junit_rules.cpp can use
// it.
std::vector<std::string> junit_problems(const std::string& xml);

}  // namespace lockstep::reports
