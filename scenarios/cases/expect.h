// The expected values of a Training case, step by step, computed by the reference.
#pragma once

#include "harness/verdict/compare.h"
#include "reference/training.h"
#include "scenarios/cases/network.h"
#include "scenarios/cases/tensors.h"

namespace lockstep::scenarios {

// All lists of values are by parameter.
reference::Format format_of(const Training& c);

struct ExpectedStep {
  // The gradients of rank r after its micro-batch m, before any reduction: [m][r].
  std::vector<std::vector<std::vector<reference::Rounded>>> accumulated;
  std::vector<reference::Rounded> average;           // over the whole batches
  std::vector<reference::Rounded> parameters_after;  // after the step's update, if the case has one

  // The last of `accumulated`: each rank's contribution to the average.
  const std::vector<std::vector<reference::Rounded>>& local() const { return accumulated.back(); }
};

// A precondition: empty where there is a reference for the optimizer.
std::string why_no_reference(const Training& c);

// Every step of `c`, starting from rank 0's parameters. Throws Refused, saying why, for a case that
// wants to be exact and is not, for one in which rounding decides whether a relu passes, and where
// why_no_reference says why.
std::vector<ExpectedStep> expected_steps(const Training& c);

// The gradients of a step of ranks that hold these parameters, [rank][parameter], whether or not
// they should. Throws Refused as above.
ExpectedStep expected_step_from(const Training& c, int step,
                                const std::vector<std::vector<reference::Rounded>>& held);

// A row that should hold `right` on every rank: equal bits in an exact case, within its error in a
// real one.
Comparison compared(const Training& c, Row row, const reference::Rounded& right);
// The same with a value for each rank.
Comparison compared(const Training& c, Row row, const std::vector<reference::Rounded>& by_rank);

// A parameter p of every rank, times `scale`, as the ranks would record it.
std::vector<TensorValue> recorded(const std::vector<std::vector<reference::Rounded>>& by_rank,
                                  size_t p, double scale, const Training& c);

// The values that mistakes in averaging would leave in parameter `p` after the backward of step
// `s`.
Explanations averaging_mistakes(const Training& c, const std::vector<ExpectedStep>& steps, int s,
                                size_t p);

// The part of a row that the ranks of `group` recorded.
Row of_group(const Row& row, const std::vector<int>& group);

}  // namespace lockstep::scenarios
