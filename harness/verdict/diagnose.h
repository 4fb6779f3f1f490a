// The pattern that the numbers show. Named from values alone: a report never diagnoses.
#pragma once

#include "harness/verdict/verdict.h"

#include <functional>

namespace lockstep {

struct Diagnosis {
  std::string pattern;  // "sum_not_average"; empty where no pattern fits
  std::string text;     // one sentence on what is seen
  Specificity specificity = Specificity::explanation;
  std::string cause = {};  // the usual one, where more is known than the pattern says
  bool operator==(const Diagnosis&) const = default;
};

// A row in which at least one rank differs from its expected value.
struct Difference {
  Row row;
  std::vector<TensorValue> expected;  // one value for each rank
  // The largest distance allowed, element by element, one for each rank; empty: equal bits.
  std::vector<TensorValue> bounds;
};

// True if two values of one dtype and shape are as close as `bound` allows; equal as numbers where
// `bound` is null, so that the sign of a zero is no difference and NaN equals NaN.
bool close(const TensorValue& a, const TensorValue& b, const TensorValue* bound);

// Whether all have the same bits, but for the sign of zero.
bool all_alike(const std::vector<TensorValue>& values);

// A diagnosis if the row shows what a known mistake would have made the ranks record.
using Explanation = std::function<std::optional<Diagnosis>(const Difference&)>;
using Explanations = std::vector<Explanation>;

// Every rank that differs holds what the mistake would have recorded there. `by_rank` has one value
// for each rank or a single one for all. Where only some ranks differ the text names them.
Explanation recorded_instead(Diagnosis diagnosis, std::vector<TensorValue> by_rank);

// One quantity that the ranks should have summed under its own name: the contribution of each rank.
struct Contribution {
  std::string name;
  std::vector<TensorValue> by_rank;
};

// Every rank holds a sum of one contribution from each rank, but not all under the same name: the
// result of reducing buckets in an order that differs between ranks. `name` is the row's own.
Explanation summed_under_other_names(std::string name, std::vector<Contribution> contributions);

// The explanations below have the names that docs/patterns.md lists. Each is about a value whose
// right value is the row's expected one, and is called only where ranks differ from it.

// The expected value is an average over the ranks; a rank holds the sum of `what`: "gradients".
Explanation sum_not_average(std::string what);

// The expected value is an average over the ranks; a rank holds it divided by W once more.
Explanation divided_twice();

// The value that was right one step earlier, as `recorded_instead` takes it. Where one rank of
// several holds it, that rank is stale.
Explanation last_steps_value(std::vector<TensorValue> previous);

// Rank r holds ratio r times its expected value: the effect of forgetting the sizes of the parts of
// a batch, W n_r / N or the like. One ratio for each rank or a single one for all.
Explanation off_by_batch_ratio(std::vector<double> ratios);

// The averages over parts of unequal size, averaged as if all parts had the same size.
Explanation average_of_averages(std::vector<TensorValue> by_rank);

// Rank r's own contribution: nothing was reduced.
Explanation not_reduced(std::vector<TensorValue> by_rank);

// The value that rank r was built with, or that another rank than rank 0 was: the initial broadcast
// left it out, or has another source. `own`: one for each rank; `cause`: the usual one, where more
// is known than the pattern says.
Explanations initial_states(const std::vector<TensorValue>& own, const std::string& cause = {});

// Other values of this kind and their expected values: right values under wrong names. `equal`
// makes this one itself, from the rows of one moment that hold another row's value too.
Explanation anothers_value(std::vector<Contribution> others);

// Explanations are tried first, in order, then relations between the numbers that need no knowledge
// (harness/verdict/relation.h), together with which ranks differ: one rank, all but rank 0, all
// alike. `moment` has the rows of the same moment, right and wrong: no relation is named that does
// not hold in every wrong one of them.
Diagnosis diagnose(const Difference& difference, const Explanations& explanations,
                   const std::vector<Difference>& moment = {});

// For a row in which the ranks do not agree, whatever is right; `moment` as above.
Diagnosis diagnose_disagreement(const Row& row, const std::vector<Row>& moment = {});

inline constexpr char kOnlyTheReferenceShows[] =
    "all ranks agree with each other; only the reference exposes this";

}  // namespace lockstep
