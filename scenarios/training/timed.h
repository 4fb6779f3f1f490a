// How many passes of a loop its replica has timed; docs/semantics.md 1.5.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/verdict.h"
#include "scenarios/training/loop.h"

namespace lockstep::scenarios::training {

// The first ten, and then as many as the case says.
int timed_passes(const Loop& c);

void record_timed_passes(const Loop& c, RankContext& here, const Replica& replica);
Findings passes_are_timed_as_often_as_said(const Loop& c, const History& h);

// True if the first bucket is full while another parameter's gradient is still to come.
bool fills_a_bucket_early(const Loop& c);
Findings buckets_leave_as_they_fill(const Loop& c, const History& h);

}  // namespace lockstep::scenarios::training
