// A rank that makes its last call only when its peers have given up waiting for it.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/verdict.h"
#include "scenarios/collectives/called.h"

namespace lockstep::scenarios::collectives {

int late_rank(const Called& c);  // the rank; -1: none
void wait_for_the_late_rank(const Called& c, RankContext& here);
Findings calls_end_in_time(const Called& c, const History& h);

}  // namespace lockstep::scenarios::collectives
