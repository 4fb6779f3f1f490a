// Batch normalisation from its definition: forward, backward and statistics of one batch, in double
// precision, with bounds on what a narrower format may make of them. docs/numerics.md derives the
// bounds.
#pragma once

#include "reference/rounding.h"

#include <cstdint>
#include <vector>

namespace lockstep::reference {

// y = (x - average) / sqrt(variance + eps) * weight + bias, channel by channel, with the average
// and the biased variance over all values of the channel in all parts.
struct BatchNorm {
  at::Tensor weight, bias;  // float64, one value a channel; undefined: none
  double eps = 0;
};

// One part of the batch: float64 [samples, channels, ...], samples may be none. `cotangent` is the
// gradient of the loss by this part of the output.
struct BatchPart {
  at::Tensor input, cotangent;
};

// Everything is by part where it is a list. Where `count` is 0 the statistics are undefined.
struct Normalised {
  int64_t count = 0;                     // values a channel, in all parts
  Rounded average, unbiased_variance;    // the variance: undefined where count is 1
  std::vector<Rounded> outputs;          // of the part's shape
  std::vector<Rounded> input_gradients;  // of the sum of the parts' losses
  std::vector<Rounded> weight_gradients, bias_gradients;  // of the part's own loss

  // Rounding alone could change the standard deviation so much that no bound means anything.
  bool is_undecided = false;
};

// [samples, channels, ...] -> [values, channels].
at::Tensor by_channel(const at::Tensor& values);

// The precisions, in bits, of the formats that compute: 24 for float32.
struct Computing {
  int precision_bits = 24;
  // In a backward pass, of a gradient times a distance, and of the sums that threads exchange.
  int exchanged_bits = 24;
};

// Variances are computed from distances, over the batch as a whole or part by part and then merged
// by counts.
Normalised normalised(const BatchNorm& layer, const std::vector<BatchPart>& parts,
                      Computing computing);

// In one format throughout.
inline Normalised normalised(const BatchNorm& layer, const std::vector<BatchPart>& parts,
                             int precision_bits) {
  return normalised(layer, parts,
                    Computing{.precision_bits = precision_bits, .exchanged_bits = precision_bits});
}

// Returns the evaluation of `input`, [samples, channels, ...]: normalised by running statistics,
// one value a channel each, as they are given.
Rounded evaluated(const BatchNorm& layer, const at::Tensor& input, const at::Tensor& average,
                  const at::Tensor& variance, int precision_bits);

// (1 - factor) running + factor batch, for a factor in [0, 1] that may be rounded itself.
Rounded moved_by(const Rounded& running, const Rounded& batch, double factor, int precision_bits);

// A format in which results are stored: its precision, and the finest bit of its smallest number,
// as a power of two's exponent.
struct Storage {
  int precision_bits = 24;
  int finest_bit_log2 = -149;
};

// Adds the error of storing to that of a computed value.
Rounded stored(const Rounded& computed, Storage format);

}  // namespace lockstep::reference
