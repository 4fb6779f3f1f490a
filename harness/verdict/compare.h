// Compares what ranks recorded with what they should have recorded.
#pragma once

#include "harness/verdict/diagnose.h"
#include "harness/verdict/verdict.h"

namespace lockstep {

// One row, and what it should hold.
struct Comparison {
  Row row;
  std::vector<TensorValue> expected;  // one value for each rank, or a single one for all
  // The largest distance allowed, element by element: float64, of the value's shape; one for each
  // rank or a single one for all. Empty: equal bits, but for the sign of zero; NaN equals NaN.
  std::vector<TensorValue> bounds = {};
  // The values that known mistakes would have recorded; called only where a rank differs.
  std::function<Explanations()> explanations = nullptr;
};

// One finding if any rank differs from its expected value in dtype, shape or value; none otherwise.
// It names the first row that differs; its text is the diagnosis, then a table of the values of
// each rank beside the reference.
Findings equal(const std::string& rule, const std::vector<Comparison>& rows);

// One finding if the ranks do not all hold the same bits (except for the sign of zero), whatever is
// right; none otherwise.
Findings alike(const std::string& rule, const std::vector<Row>& rows);

// How many representable numbers lie between two of one floating dtype; 0 for equal ones.
int64_t ulp_distance(double a, double b, const std::string& dtype);

}  // namespace lockstep
