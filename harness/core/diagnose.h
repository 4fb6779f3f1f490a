// What pattern do the numbers show? Named from values alone: a report never diagnoses.
#pragma once

#include "harness/core/history.h"

#include <functional>

namespace lockstep {

struct Diagnosis {
  std::string pattern;  // "sum_not_average"; empty where no pattern fits
  std::string text;     // one sentence on what is seen
  bool operator==(const Diagnosis&) const = default;
};

// A row in which at least one rank differs from what was expected of it.
struct Difference {
  Row row;
  std::vector<TensorValue> expected;  // one value for each rank
  // The largest distance allowed, element by element, one for each rank; empty: equal bits.
  std::vector<TensorValue> bounds;
};

// Whether two values of one dtype and shape are as close as `bound` allows; equal as numbers where
// `bound` is null, so that the sign of a zero is no difference and NaN equals NaN.
bool close(const TensorValue& a, const TensorValue& b, const TensorValue* bound);

// A diagnosis if the row shows what a known mistake would have made the ranks record.
using Explanation = std::function<std::optional<Diagnosis>(const Difference&)>;
using Explanations = std::vector<Explanation>;

// Every rank that differs holds what the mistake would have recorded there. `by_rank` has one value
// for each rank or a single one for all. Where only some ranks differ the text names them.
Explanation recorded_instead(Diagnosis diagnosis, std::vector<TensorValue> by_rank);

// One thing that the ranks should have summed under its own name: what each rank put in.
struct Contribution {
  std::string name;
  std::vector<TensorValue> by_rank;
};

// Every rank holds a sum of one contribution from each rank, but not all under the same name: what
// comes of reducing buckets in an order that differs between ranks. `name` is the row's own.
Explanation summed_under_other_names(std::string name, std::vector<Contribution> contributions);

// Explanations are tried first, in order, then patterns that need none: a factor, one rank that
// stands alone, only rank 0 right, ranks that agree with each other but not with the reference.
Diagnosis diagnose(const Difference& difference, const Explanations& explanations);

}  // namespace lockstep
