#include "reference/running_statistics.h"

#include "reference/batch_norm.h"

#include <torch/torch.h>

namespace lockstep::reference {

Statistics statistics(const Rounded& values, Arithmetic& arithmetic) {
  const Rounded rows{by_channel(values.value), by_channel(values.error)};
  const auto count = static_cast<double>(rows.value.size(0));
  const auto sum = arithmetic.sum_of_samples(rows);
  Statistics out{.average = arithmetic.times(sum, 1 / count), .unbiased_variance = {}};

  // Two passes: distances from the computed average, squared, summed, divided.
  Arithmetic rounding({.precision_bits = arithmetic.format().precision_bits, .exact = false});
  const auto distances = rounding.plus(
      rows, {-out.average.value.expand_as(rows.value), out.average.error.expand_as(rows.value)});
  const auto& size = distances.value.abs();
  const Rounded squares{distances.value * distances.value,
                        distances.error * (2 * size + distances.error)};
  out.unbiased_variance =
      rounding.times(rounding.sum_of_samples(rounding.times(squares, 1)), 1 / (count - 1));
  // The divisor's reciprocal is rounded too.
  out.unbiased_variance.error = out.unbiased_variance.error * 1.001 +
                                out.unbiased_variance.value * rounding.format().roundoff();
  return out;
}

Rounded moved(const Rounded& running, const Rounded& batch, double momentum,
              Arithmetic& arithmetic) {
  return arithmetic.plus(arithmetic.times(running, 1 - momentum),
                         arithmetic.times(batch, momentum));
}

Rounded convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                    Arithmetic& arithmetic) {
  const int64_t size = weight.size(2), around = (size - 1) / 2;
  // Every output is a product of one patch of the input with one filter.
  const auto patches = at::im2col(input, {size, size}, {1, 1}, {around, around}, {1, 1});
  const auto rows = patches.movedim(1, -1).reshape({-1, patches.size(1)});
  const auto out = arithmetic.affine(given(rows), given(weight.flatten(1)), given(bias));
  const auto shaped = [&](const at::Tensor& values) {
    return values.reshape({input.size(0), input.size(2), input.size(3), weight.size(0)})
        .movedim(-1, 1);
  };
  return {shaped(out.value), shaped(out.error)};
}

}  // namespace lockstep::reference
