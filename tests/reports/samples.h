// Results made by hand, one of each kind.
#pragma once

#include "harness/cases/result.h"

namespace lockstep::samples {

Result passing();
Result failing();
Result shrunk();                    // failing(), whose case was shrunk
Result of_two_signatures();         // of a run that kept going: 3 cases fail as failing(), 2 hang
Result of_kind(Result::Kind kind);  // with a finding of its own unless it is a pass
lockstep::Run run_of(std::vector<Result> results);
// The run that a file with this JSON holds.
lockstep::Run read(const Json& json);
// The same results on nccl, whose larger worlds share one GPU.
lockstep::Run run_on_one_gpu(std::vector<Result> results);

}  // namespace lockstep::samples
