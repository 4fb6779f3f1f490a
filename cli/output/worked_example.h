// One run of a scenario's smallest case, as lines for people: what its ranks recorded.
#pragma once

#include "cli/known.h"
#include "harness/process/single_threaded.h"

#include <string>
#include <vector>

namespace lockstep::cli {

// Runs the smallest case of `scenario` in a simulated world of the default subject. The first line
// says how it ended; a table of at most `kExampleRows` records follows, a column for each rank.
std::vector<std::string> worked_example(const Known& known, const Scenario& scenario,
                                        SingleThreaded alone);

// The lines of one history, and of its verdict.
std::vector<std::string> example_lines(const Verdict& verdict, const History& history);

inline constexpr size_t kExampleRows = 6, kExampleNumbers = 4, kExampleRanks = 4;

}  // namespace lockstep::cli
