// Trainings whose ranks update on their own and average the parameters now and then: local SGD.
#pragma once

#include "harness/invariants/rows.h"

#include <map>

namespace lockstep::recorded {

// The models and optimizers whose parameters the program averages between updates, with the first
// update that leaves them different: the ranks' gradients differ then, and before a later update
// the parameters are the same on all ranks, by no update.
std::map<std::string, Moment> averaged_between_updates(const RecordedRun& run);

// True if both are there, and have the same values of the same tensors.
bool hold_the_same(const Digests* a, const Digests* b);

}  // namespace lockstep::recorded
