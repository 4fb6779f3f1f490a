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

// What a known mistake would have made the ranks record; a diagnosis if the whole row shows it.
// Called only for rows that differ from what was expected.
using Explanation = std::function<std::optional<Diagnosis>(const Row& seen)>;
using Explanations = std::vector<Explanation>;

// The mistake would have recorded exactly these values, one for each rank.
Explanation recorded_instead(Diagnosis diagnosis, std::vector<TensorValue> by_rank);

// One thing that the ranks should have summed under its own name: what each rank put in.
struct Contribution {
  std::string name;
  std::vector<TensorValue> by_rank;
};

// Every rank holds a sum of one contribution from each rank, but not all under the same name: what
// comes of reducing buckets in an order that differs between ranks. `name` is the row's own.
Explanation summed_under_other_names(std::string name, std::vector<Contribution> contributions);

// `seen` differs from `expected` on at least one rank; both hold one value for each rank.
// Explanations are tried first, in order, then patterns that need none: a factor, one rank that
// stands alone, only rank 0 right, ranks that agree with each other but not with the reference.
Diagnosis diagnose(const Row& seen, const std::vector<TensorValue>& expected,
                   const Explanations& explanations);

}  // namespace lockstep
