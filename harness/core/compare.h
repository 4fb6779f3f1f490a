// Comparing what ranks recorded with what should have been recorded.
#pragma once

#include "harness/core/diagnose.h"
#include "harness/core/verdict.h"

namespace lockstep {

// What a check expects of one row, and what else it knows that could explain a difference.
struct Expected {
  std::string rule;                  // the sentence that a difference breaks
  std::vector<TensorValue> by_rank;  // one value for each rank, or a single one for all
  double bound = 0;                  // largest allowed absolute difference; 0 demands equal bits
  // What mistakes would have recorded instead; asked for only when a rank differs.
  std::function<Explanations()> explanations = nullptr;
};

// One finding if any rank differs, with dtype, shape or value, from what is expected; none
// otherwise. The text shows the first differing element of each rank beside the reference, and the
// diagnosis. Equal bits are demanded with a bound of 0, but for the sign of zero; NaN equals NaN.
Findings equal(const Row& row, const Expected& expected);

// How many representable numbers lie between two of one floating dtype; 0 for equal ones.
int64_t ulp_distance(double a, double b, const std::string& dtype);

}  // namespace lockstep
