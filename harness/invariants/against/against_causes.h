// Names the mistake where ranks part from one process, by their numbers and by what they recorded.
#pragma once

#include "harness/invariants/against/point_rows.h"
#include "harness/verdict/diagnose.h"

namespace lockstep::recorded {

// Counts of one step of the ranks.
struct StepCounts {
  double backwards = 0;    // of a model, on a rank
  double batch_ratio = 0;  // samples that one process drew over those of all ranks; 0: unknown
};
StepCounts counts_of(const PointRow& row, const RecordedRun& run, const OneProcess& one);

Explanations explanations_of(const PointRow& row, size_t tensor, const StepCounts& counts);

// Adds what the ranks recorded in that step that explains it: other batches, a mean of means,
// gradients that changed before they were averaged, BatchNorm. May name the finding's pattern.
void add_causes(Finding& finding, const PointRow& row, const RecordedRun& run,
                const OneProcess& one);

std::string short_number(double value);

}  // namespace lockstep::recorded
