// Steps of a Loop from values that ranks hold, right or wrong: to judge each step from the one
// before, and to know a mistake by the values that it leaves.
#pragma once

#include "harness/verdict/diagnose.h"
#include "scenarios/training/loop.h"

namespace lockstep::scenarios::training {

// By rank, the values of one parameter before a step, and the factors of the ranks' losses. Returns
// the average of their gradients, in the parameter's dtype.
TensorValue average_from(const Loop& c, int step, size_t p, const std::vector<TensorValue>& held,
                         const std::vector<double>& scales);

// Explains a parameter of a case whose backwards step, after step 0, where every backward steps and
// clears the gradients, those inside no_sync too.
Explanation stepped_inside_no_sync(const Loop& c, size_t p);

}  // namespace lockstep::scenarios::training
