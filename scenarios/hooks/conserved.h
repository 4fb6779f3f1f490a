// The numbers that PowerSGD applies and keeps back in a Hooked case, as matrices in double
// precision.
#pragma once

#include "harness/history/history.h"
#include "scenarios/hooks/case.h"

namespace lockstep::scenarios::hooks {

// True if PowerSGD sends less for this parameter.
bool approximates(const Hooked& c, size_t parameter);

double roundoff(const Hooked& c);

// False for half-precision gradients: they round A to so few bits that it is no projection.
bool is_wide(const Hooked& c);

std::vector<at::Tensor> received_matrices(const Hooked& c, int step, size_t parameter);

at::Tensor average(const std::vector<at::Tensor>& by_rank);
at::Tensor average_size(const std::vector<at::Tensor>& by_rank);

// The gradients that ranks hold after a step, times the share of the world's size that is the
// divisor of the step: where a rank has no input, a hook may divide by fewer than the ranks.
at::Tensor applied(const Hooked& c, const History& h, int step, size_t parameter);

// True if a training whose hook is never loaded follows one that was saved and loaded: where one
// matrix is approximated.
bool has_one_to_compare(const Hooked& c);

// The gradients that ranks hold after a step of that training, in which there is no join.
at::Tensor never_loaded(const History& h, int step, size_t parameter);

// True if it is known what every rank has left out before a step, and until its end: a rank without
// an input says so after the join.
bool is_known_before(const Hooked& c, int step);
bool is_known_after(const Hooked& c, int step);

// One approximated parameter in the steps from `first` to `last`, before which and after which it
// is known what every rank has left out.
struct Step {
  at::Tensor wanted;    // M, the sum over the steps
  at::Tensor applied;   // A, likewise
  at::Tensor left_out;  // on average over the ranks
  at::Tensor rounding;  // of A plus what is left out
  at::Tensor sizes;     // of what the ranks approximate, on average
};
Step step_of(const Hooked& c, const History& h, int first, int last, size_t parameter);

}  // namespace lockstep::scenarios::hooks
