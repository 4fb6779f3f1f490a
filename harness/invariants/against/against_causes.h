// Names the mistake where ranks part from one process, by their numbers and by what they recorded.
#pragma once

#include "harness/invariants/against/point_rows.h"
#include "harness/verdict/diagnose.h"

#include <map>

namespace lockstep::recorded {

// Counts of one step.
struct StepCounts {
  double backwards = 0;               // of a model, on rank 0
  std::vector<int64_t> samples = {};  // that each rank drew to train on
  int64_t samples_of_one = 0;         // that one process drew

  int64_t all_samples() const;
  double batch_ratio() const;  // samples of one process over those of all ranks; 0: unknown
};

// Counts what the runs did, once for all steps.
class StepCounter {
 public:
  StepCounter(const RecordedRun& run, const RecordedRun& one);
  StepCounts at(const PointRow& row) const;

 private:
  using ByStep = std::map<int, int64_t>;
  std::vector<ByStep> samples_;  // by rank
  ByStep samples_of_one_;
  std::map<std::string, ByStep> backwards_;  // by model
};

Explanations explanations_of(const PointRow& row, size_t tensor, const StepCounts& counts);

// Adds what the ranks recorded in that step that explains it: other batches, a mean of means,
// gradients that changed before they were averaged, BatchNorm. May name the finding's pattern.
void add_causes(Finding& finding, const PointRow& row, const StepCounts& counts,
                const RecordedRun& run, const OneProcess& one);

std::string short_number(double value);

}  // namespace lockstep::recorded
