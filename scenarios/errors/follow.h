// What each rank must be told and hold after each step of an Erring case, by docs/semantics.md 2.5,
// 2.6 and 2.7: a training of plain numbers in one process.
#pragma once

#include "scenarios/errors/ends.h"

namespace lockstep::scenarios::errors {

// What .grad of one parameter holds on one rank: one number in every element.
struct Gradient {
  bool is_defined = false;
  bool is_known = true;  // false: the number is of no use (gradient_as_bucket_view)
  double value = 0;
};

struct Followed {
  std::vector<Told> told;                        // by rank
  std::vector<std::vector<Gradient>> gradients;  // by rank and parameter
  bool are_judged = true;                        // false: what gradients hold is not said
};

// By step.
std::vector<Followed> follow(const Erring& c);

}  // namespace lockstep::scenarios::errors
