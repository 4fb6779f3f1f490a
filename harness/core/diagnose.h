// What pattern do the numbers show? Named from values alone: a report never diagnoses.
#pragma once

#include "harness/core/history.h"

namespace lockstep {

// What a known mistake would have made every rank record, one value a rank. The one that matches
// the whole row is the diagnosis; the first in the list wins.
struct Explanation {
  std::string pattern;  // "sum_not_average"
  std::string text;     // "the sum of the ranks' gradients, not the average"
  std::vector<TensorValue> by_rank;
};
using Explanations = std::vector<Explanation>;

struct Diagnosis {
  std::string pattern;  // empty where no pattern fits
  std::string text;     // one sentence on what is seen
};

// `seen` differs from `expected` on at least one rank; both hold one value for each rank.
// Explanations are tried first, then patterns that need none: a factor, one rank that stands
// alone, only rank 0 right, ranks that agree with each other but not with the reference.
Diagnosis diagnose(const Row& seen, const std::vector<TensorValue>& expected,
                   const Explanations& explanations);

}  // namespace lockstep
