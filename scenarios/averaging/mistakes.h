// Mistakes of an optimizer that is divided over the ranks, by the values that they leave.
#pragma once

#include "harness/verdict/diagnose.h"
#include "scenarios/averaging/divided.h"

namespace lockstep::scenarios::averaging {

// Ranks that hold what they held before the step, beside one that holds the right value.
Explanation not_sent(const std::vector<TensorValue>& before);

// Every element moved by one multiple of what it should have moved by. `of`: more words on its
// rate.
Explanation moved_by_another_rate(const std::vector<TensorValue>& before, const std::string& of);

// The changes of the optimizer's options before a step, in words; empty if there were none.
std::string history_of_options(const Divided& c, int step);

}  // namespace lockstep::scenarios::averaging
