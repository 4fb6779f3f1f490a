// How the ranks of a history ended and where they were, as details of a finding.
#pragma once

#include "harness/base/table.h"
#include "harness/history/history.h"

namespace lockstep {

// "at step 1, after", or "before its first step".
std::string moment_text(const Moment& at);

// For each rank how it ended, where it was, and its last collective; then the ladder. An exception
// that is `said` already is not quoted.
Details rank_summary(const History& history, const std::string& said = "");

}  // namespace lockstep
