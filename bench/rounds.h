// Helpers of the benchmarks that compare tiers: alternating rounds, and the seconds of one round.
#pragma once

#include "harness/cases/tier.h"

#include <utility>
#include <vector>

namespace lockstep::bench {

// From the command line, "NAME [ROUNDS [CASES]]"; ends the program where that is misused.
std::pair<int, int> rounds_and_cases(int argc, char** argv, const char* name, int rounds,
                                     int cases);

// Runs `cases` worlds of `size` one after another, judges each, and ends the program unless all
// pass.
double seconds_for(Tier& tier, const Setting& setting, const Scenario& scenario, int size,
                   int cases);

double median(std::vector<double> values);

}  // namespace lockstep::bench
