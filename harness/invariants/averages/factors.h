// Updates from gradients that are the average of the ranks' times the number of ranks, or divided
// by it once more.
#pragma once

#include "harness/invariants/averages/averaged.h"
#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// Compares samples of what ranks computed with samples of what updates took. A finding where the
// program does not weigh its losses to make up for the factor; a remark where that is not known.
// Counts the averages that it compared.
void add_factors(const RecordedRun& run, const AveragesOfRun& averages, Judgement& judgement,
                 size_t& compared);

// True if what all ranks took is `factor` times the average of what they had, in every value whose
// sum over the ranks is not near zero; false where too few are.
bool is_times_the_average(const AveragedByRank& ranks, double factor);

}  // namespace lockstep::recorded
