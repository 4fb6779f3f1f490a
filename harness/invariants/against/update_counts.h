// How many updates the ranks and one process made, and how many of them have values.
#pragma once

#include "harness/invariants/against/against.h"

namespace lockstep::recorded {

// Adds to a comparison that found no difference: a finding where one side ended among the updates
// that are compared, or where a file took no more values; a remark where it ended after them.
void add_update_counts(Judgement& judgement, const RecordedRun& run, const OneProcess& one);

}  // namespace lockstep::recorded
