// Gradients of a small network on one process, from the definition, in double precision: forward
// and backward written out with matrix products, no autograd. With them comes what the same
// training in a narrower format, on any number of ranks, may give: exactly these numbers, by
// certificate, or numbers within a bound.
//
// The network: parallel branches on one input, each a chain of dense layers, their outputs summed.
// The loss of a batch is weight x the sum over samples and outputs of output x cotangent.
#pragma once

#include "reference/rounding.h"

#include <string>
#include <vector>

namespace lockstep::reference {

// y = x weight^T + bias, then max(y, 0) if `relu`. weight: [outputs, inputs]; bias: [outputs], or
// undefined for none.
struct Dense {
  Rounded weight, bias;
  bool relu = false;
};
using Branch = std::vector<Dense>;

// inputs: float64 [samples, features]; cotangents: float64 [samples, outputs]. No samples is fine.
struct Batch {
  at::Tensor inputs, cotangents;
};

// Gradients in the order of the parameters: branch by branch, layer by layer, weight then bias.
struct Gradients {
  std::vector<Rounded> by_parameter;
  double partial_sum_units_max = 0;  // as Arithmetic::units_max() measured it
  // A relu's input lies so close to zero that rounding decides whether it passes: no bound holds.
  bool is_undecided = false;
};

// `weight` is a number that the format holds exactly.
Gradients gradients(const std::vector<Branch>& network, const Batch& batch, double weight,
                    const Format& format);

// Returns what .grad holds after adding up batch after batch; `gradients` has at least one element.
Gradients accumulated(const std::vector<Gradients>& gradients, const Format& format);

// Checks what an exact run of the ranks needs: every partial sum of every rank and of the average
// fits the format's precision, and multiplying by the rounded 1/W, which is how DDP scales, changes
// no bit. Returns why not, or nothing when it is exact.
std::string why_not_exact(const std::vector<Gradients>& by_rank, const Gradients& whole,
                          const Format& format);

// The average over the ranks as every rank must hold it: the whole batch's gradients, with bounds
// on what computing them rank by rank in `format` and averaging may be off.
std::vector<Rounded> averages(const std::vector<Gradients>& by_rank, const Gradients& whole,
                              const Format& format);

}  // namespace lockstep::reference
