// A line that rank 0 prints for all.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/verdict.h"
#include "scenarios/collectives/called.h"

namespace lockstep::scenarios::collectives {

// Records what this rank prints.
void print_a_line(RankContext& here);
Findings rank_zero_alone_prints(const Called& c, const History& h);

}  // namespace lockstep::scenarios::collectives
