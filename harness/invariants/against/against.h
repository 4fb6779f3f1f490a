// A run of several ranks beside runs of the same program as one process over the same global
// batches: where they part by more than rounding explains. docs/judge.md has the argument.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

// A run of one process, and the same once more with its inputs and parameters moved by one unit in
// the last place, at least once: a tensor moves then as rounding may move it.
struct OneProcess {
  RecordedRun run;
  std::vector<RecordedRun> moved;
};

// Reads a folder with the run, and perturbed-1, perturbed-2, ... in it. Throws FieldError.
OneProcess read_one_process(const std::filesystem::path& folder);

// Throws FieldError, whose text starts with `folder`, where no rank recorded values of tensors.
void require_values(const RecordedRun& run, const std::string& folder);

Judgement batches_are_those_of_one_process(const RecordedRun& run, const OneProcess& one);
Judgement values_follow_one_process(const RecordedRun& run, const OneProcess& one);

}  // namespace lockstep::recorded
