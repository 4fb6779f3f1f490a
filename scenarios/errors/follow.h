// The error that each rank must receive, and what it must hold, after each step of an Erring case,
// by docs/semantics.md 2.5 to 2.8: a training of plain numbers in one process.
#pragma once

#include "scenarios/errors/ends.h"

namespace lockstep::scenarios::errors {

// The content of .grad of one parameter on one rank: one number in every element.
struct Gradient {
  bool is_defined = false;
  bool is_known = true;  // false: the number is of no use (gradient_as_bucket_view)
  double value = 0;
};

struct Followed {
  std::vector<ExpectedError> errors;             // by rank
  std::vector<std::vector<Gradient>> gradients;  // by rank and parameter
  bool are_judged = true;                        // false: what gradients hold is not said
};

// By step. `late` says in which steps a peer's flag is read after the pass, as on a device; there a
// pass that some rank could not complete ends the training, and all begin anew. Nowhere where it is
// empty.
std::vector<Followed> follow(const Erring& c, const std::vector<bool>& late = {});

// The same of a case whose ranks do not go out of step.
std::vector<Followed> follow_in_step(const Erring& c, const std::vector<bool>& late);

// True if in some pass a gradient comes that must not come, and is written into a bucket that may
// travel already (gradient_as_bucket_view). The pass fails, so it does not matter what travels; but
// on a device nothing orders the two.
bool writes_into_what_travels(const Erring& c);

}  // namespace lockstep::scenarios::errors
