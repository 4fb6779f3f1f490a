// What one step of a Loop makes of what the ranks hold, right or wrong: to judge each step from the
// one before, and to know mistakes by what they leave.
#pragma once

#include "harness/verdict/diagnose.h"
#include "scenarios/training/loop.h"

namespace lockstep::scenarios::training {

// By rank, the values of one parameter before a step, and the factors of the ranks' losses. Returns
// the average of their gradients, in the parameter's dtype.
TensorValue average_from(const Loop& c, int step, size_t p, const std::vector<TensorValue>& held,
                         const std::vector<double>& scales);

// Of a case whose backwards step: what the ranks hold of a parameter after step 0 where every
// backward steps and clears the gradients, those inside no_sync too.
Explanation stepped_inside_no_sync(const Loop& c, size_t p);

}  // namespace lockstep::scenarios::training
