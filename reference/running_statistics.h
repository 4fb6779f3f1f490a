// The running statistics of a batch normalisation, from the definition: what one forward in
// training makes of them. docs/numerics.md derives the bounds.
#pragma once

#include "reference/rounding.h"

namespace lockstep::reference {

// One value for each channel.
struct Statistics {
  Rounded average;
  Rounded unbiased_variance;  // the sum of squared distances from the average, over count - 1
};

// Returns the statistics of `values` [samples, channels, ...], over all axes but the second; at
// least two values a channel. An exact average needs a count that is a power of two; the variance
// never claims to be exact.
Statistics statistics(const Rounded& values, Arithmetic& arithmetic);

// (1 - momentum) running + momentum batch; `momentum` is a power of two.
Rounded moved(const Rounded& running, const Rounded& batch, double momentum,
              Arithmetic& arithmetic);

// input [samples, in, h, w], weight [out, in, k, k] with k odd, bias [out]: the convolution with
// (k - 1) / 2 zeros around, so that the output has the input's size. For given numbers.
Rounded convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                    Arithmetic& arithmetic);

}  // namespace lockstep::reference
