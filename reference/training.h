// Gradients of a small network on one process, from the definition, in double precision: forward
// and backward written out with matrix products, no autograd. And the certificate that the same
// training in a narrower dtype, on any number of ranks, gives exactly these numbers.
//
// The network: parallel branches on one input, each a chain of dense layers, their outputs summed.
// The loss of a batch is weight x the sum over samples and outputs of output x cotangent.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace lockstep::reference {

// y = x weight^T + bias, then max(y, 0) if `relu`. weight: float64 [outputs, inputs]; bias: float64
// [outputs], or undefined for none.
struct Dense {
  at::Tensor weight, bias;
  bool relu = false;
};
using Branch = std::vector<Dense>;

// inputs: float64 [samples, features]; cotangents: float64 [samples, outputs]. No samples is fine.
struct Batch {
  at::Tensor inputs, cotangents;
};

// Gradients in the order of the parameters: branch by branch, layer by layer, weight then bias.
struct Gradients {
  std::vector<at::Tensor> by_parameter;  // float64
  // The largest absolute value any partial sum of any product can reach, whatever the order of
  // summation, counted in units of the finest bit any of its terms has. A format with p bits of
  // precision computes all of them exactly if this is at most 2^p. docs/numerics.md derives it.
  double partial_sum_units_max = 0;
};
Gradients gradients(const std::vector<Branch>& network, const Batch& batch, double weight);

// What an exact run of `world_size` ranks needs: every partial sum of every rank and of the average
// fits `precision_bits` (24 for float32, 53 for float64), and multiplying by the rounded 1/W, which
// is how DDP scales, changes no bit. Returns why not, or nothing when it is exact.
std::string why_not_exact(const std::vector<Gradients>& by_rank, const Gradients& whole,
                          int precision_bits);

// The finest bit of any element, as a power of two; 0 if all elements are zero.
double finest_bit(const at::Tensor& values);

}  // namespace lockstep::reference
