#include "reference/batch_norm.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::reference {

namespace {

// One format's rounding errors, for sums of `terms` and a few operations besides.
class Rounding {
 public:
  Rounding(int precision_bits, int64_t terms)
      : format_{.precision_bits = precision_bits, .exact = false}, terms_(terms) {}

  // The error that k roundings add to something of absolute size up to `size`.
  at::Tensor of(const at::Tensor& size, int64_t k) const {
    const double n = static_cast<double>(k) * format_.roundoff();
    return size * (n / (1 - n)) + 2 * static_cast<double>(k) * format_.underflow();
  }

  // A few operations, four with room: what is outside sums in this file.
  at::Tensor few(const at::Tensor& size) const { return of(size, 4); }

  Rounded plus(const Rounded& a, const Rounded& b) const {
    return {a.value + b.value, a.error + b.error + few(most(a) + most(b))};
  }
  Rounded minus(const Rounded& a, const Rounded& b) const { return plus(a, {-b.value, b.error}); }
  // Element by element.
  Rounded times(const Rounded& a, const Rounded& b) const {
    const auto carried = a.value.abs() * b.error + a.error * (b.value.abs() + b.error);
    return {a.value * b.value, carried + few(most(a) * most(b))};
  }
  Rounded over(const Rounded& a, double count) const {
    return {a.value / count, a.error / count + few(most(a) / count)};
  }
  // Over the first axis, of terms that are products at most.
  Rounded sum(const Rounded& rows) const {
    return {rows.value.sum(0), rows.error.sum(0) + of(most(rows).sum(0), terms_)};
  }

 private:
  Format format_;
  int64_t terms_;
};

// The sums of a backward pass, by threads of which each sums products in single precision and which
// then exchange their sums, in `exchanged_bits`, as products are: docs/numerics.md, "Batch
// normalisation".
class BackwardSums {
 public:
  BackwardSums(const Rounding& rounding, Computing computing, size_t parts)
      : rounding_(rounding),
        exchanged_{.precision_bits = computing.exchanged_bits, .exact = false},
        products_(computing.exchanged_bits, kExchanges),
        is_narrower_(computing.exchanged_bits < computing.precision_bits),
        smallest_(static_cast<double>(parts) * kThreads * exchanged_.underflow()) {}

  Rounded products(const Rounded& a, const Rounded& b) const { return products_.times(a, b); }

  // Over the first axis.
  Rounded of(const Rounded& rows) const {
    auto sum = rounding_.sum(rows);
    if (is_narrower_)
      sum.error += products_.of(most(rows).sum(0) + sum.error, kExchanges) + smallest_;
    return sum;
  }

 private:
  // A block of CUDA's kernels exchanges a sum as often as 512 can be halved, and once more.
  static constexpr int kThreads = 512;
  static constexpr int64_t kExchanges = 10;

  Rounding rounding_;
  Format exchanged_;
  Rounding products_;
  bool is_narrower_;
  double smallest_;  // what all exchanged sums that are too small for the format can lose
};

// by_channel's way back.
at::Tensor shaped_like(const at::Tensor& rows, const at::Tensor& values) {
  return rows.reshape(values.movedim(1, -1).sizes()).movedim(-1, 1);
}

struct Rows {
  at::Tensor input, cotangent;  // [values, channels], all parts one after the other
  std::vector<int64_t> counts;  // of each part
};

Rows rows_of(const std::vector<BatchPart>& parts) {
  std::vector<at::Tensor> inputs, cotangents;
  Rows out;
  for (const auto& part : parts) {
    inputs.push_back(by_channel(part.input));
    cotangents.push_back(by_channel(part.cotangent));
    out.counts.push_back(inputs.back().size(0));
  }
  out.input = at::cat(inputs);
  out.cotangent = at::cat(cotangents);
  return out;
}

// How often a sum of these values rounds, besides what merging parts does: not at all where every
// partial sum is a multiple of one bit and small enough (docs/numerics.md, "Partial sums").
int64_t roundings_of_sum(const at::Tensor& values, int precision_bits) {
  const double largest = values.abs().sum(0).max().item<double>();
  const bool is_exact = largest <= std::ldexp(finest_bit(values), precision_bits);
  return is_exact ? 0 : values.size(0);
}

struct BatchSpread {
  Rounded average, unbiased_variance, inverse_deviation;
  bool is_undecided = false;
};

// 1 / sqrt(variance + eps). It falls where the variance grows, and steeper where that is small.
Rounded inverse_root(const Rounded& variance, double eps, const Rounding& rounding,
                     bool& is_undecided) {
  const auto within = variance.value + eps;
  const auto error = variance.error + rounding.few(within + variance.error);
  is_undecided = at::any(error > within / 8).item<bool>();
  const auto value = within.rsqrt();
  const auto farthest = at::maximum(within - error, within / 2).rsqrt();
  return {value, farthest - value + rounding.few(farthest)};
}

BatchSpread spread_of(const at::Tensor& input, double eps, int64_t parts, int precision_bits) {
  const auto count = static_cast<double>(input.size(0));
  const Rounding rounding(precision_bits, input.size(0) + parts + 8);
  const auto roundings = roundings_of_sum(input, precision_bits) + parts + 8;
  BatchSpread out;
  out.average = {input.mean(0), rounding.of(input.abs().mean(0), roundings)};
  // No part's average is further off than this, nor is that of the whole.
  const auto off = rounding.of(std::get<0>(input.abs().max(0)), roundings);
  const auto variance = (input - out.average.value).square().mean(0);
  const auto carried = 4 * off * variance.sqrt() + 5 * off * off;
  const Rounded biased{variance,
                       carried + rounding.of(variance + carried, input.size(0) + parts + 8)};
  out.inverse_deviation = inverse_root(biased, eps, rounding, out.is_undecided);
  if (count > 1) {
    const double unbiased = count / (count - 1);
    out.unbiased_variance = {variance * unbiased,
                             biased.error * unbiased + rounding.few(most(biased) * unbiased)};
  }
  return out;
}

// Every part's rows of `all`, in the shape of the part.
std::vector<Rounded> by_part(const Rounded& all, const Rows& rows,
                             const std::vector<BatchPart>& parts) {
  const auto values = all.value.split_with_sizes(rows.counts);
  const auto errors = all.error.split_with_sizes(rows.counts);
  std::vector<Rounded> out;
  for (size_t part = 0; part < parts.size(); ++part)
    out.push_back({shaped_like(values[part], parts[part].input),
                   shaped_like(errors[part], parts[part].input)});
  return out;
}

// As if they were given: x - average may be formed after both were scaled, so it rounds with the
// size of both.
Rounded distances(const at::Tensor& input, const Rounded& average, const Rounding& rounding) {
  return rounding.minus(given(input),
                        {average.value.expand_as(input), average.error.expand_as(input)});
}

Rounded scale_of(const BatchNorm& layer, const Rounded& inverse, const Rounding& rounding) {
  return layer.weight.defined() ? rounding.times(inverse, given(layer.weight)) : inverse;
}

Rounded output_of(const BatchNorm& layer, const Rounded& distance, const Rounded& scale,
                  const Rounding& rounding) {
  const auto& shape = distance.value;
  const auto scaled =
      rounding.times(distance, {scale.value.expand_as(shape), scale.error.expand_as(shape)});
  return layer.bias.defined() ? rounding.plus(scaled, given(layer.bias.expand_as(shape))) : scaled;
}

void backward(Normalised& out, const Rows& rows, const std::vector<BatchPart>& parts,
              const Rounded& distance, const Rounded& inverse, const Rounded& scale,
              const Rounding& rounding, const BackwardSums& sums) {
  const auto count = static_cast<double>(out.count);
  const auto upstream = given(rows.cotangent);
  const auto weighted = sums.products(upstream, distance);
  const auto sum = sums.of(upstream), product = sums.of(weighted);
  // g - sum / n - distance inverse^2 product / n, all times inverse weight.
  const auto slope =
      rounding.over(rounding.times(rounding.times(inverse, inverse), product), count);
  const auto wide = [&](const Rounded& one) {
    return Rounded{one.value.expand_as(rows.input), one.error.expand_as(rows.input)};
  };
  const auto centred = rounding.minus(upstream, wide(rounding.over(sum, count)));
  const auto bent = rounding.minus(centred, rounding.times(distance, wide(slope)));
  out.input_gradients = by_part(rounding.times(bent, wide(scale)), rows, parts);
  int64_t first = 0;
  for (const auto own : rows.counts) {
    const auto share = [&](const Rounded& all) {
      return sums.of({all.value.narrow(0, first, own), all.error.narrow(0, first, own)});
    };
    out.weight_gradients.push_back(rounding.times(share(weighted), inverse));
    out.bias_gradients.push_back(share(upstream));
    first += own;
  }
}

// Nothing to normalise by: outputs are empty, and so is every sum.
Normalised of_no_values(const std::vector<BatchPart>& parts) {
  Normalised out;
  for (const auto& part : parts) {
    out.outputs.push_back(given(part.input));
    out.input_gradients.push_back(given(at::zeros_like(part.input)));
    out.weight_gradients.push_back(given(at::zeros({part.input.size(1)}, at::kDouble)));
    out.bias_gradients.push_back(out.weight_gradients.back());
  }
  return out;
}

}  // namespace

at::Tensor by_channel(const at::Tensor& values) {
  return values.movedim(1, -1).reshape({-1, values.size(1)});
}

Normalised normalised(const BatchNorm& layer, const std::vector<BatchPart>& parts,
                      Computing computing) {
  const auto rows = rows_of(parts);
  if (rows.input.size(0) == 0) return of_no_values(parts);
  const auto part_count = static_cast<int64_t>(parts.size());
  const Rounding rounding(computing.precision_bits, rows.input.size(0) + part_count + 8);
  const BackwardSums sums(rounding, computing, parts.size());
  const auto spread = spread_of(rows.input, layer.eps, part_count, computing.precision_bits);
  Normalised out{.count = rows.input.size(0),
                 .average = spread.average,
                 .unbiased_variance = spread.unbiased_variance,
                 .outputs = {},
                 .input_gradients = {},
                 .weight_gradients = {},
                 .bias_gradients = {},
                 .is_undecided = spread.is_undecided};
  const auto& inverse = spread.inverse_deviation;
  const auto scale = scale_of(layer, inverse, rounding);
  const auto distance = distances(rows.input, spread.average, rounding);
  out.outputs = by_part(output_of(layer, distance, scale, rounding), rows, parts);
  backward(out, rows, parts, distance, inverse, scale, rounding, sums);
  return out;
}

Rounded evaluated(const BatchNorm& layer, const at::Tensor& input, const at::Tensor& average,
                  const at::Tensor& variance, int precision_bits) {
  const Rounding rounding(precision_bits, 1);
  bool is_undecided = false;  // never: the variance is given
  const auto inverse = inverse_root(given(variance), layer.eps, rounding, is_undecided);
  const auto distance = distances(by_channel(input), given(average), rounding);
  const auto output = output_of(layer, distance, scale_of(layer, inverse, rounding), rounding);
  return {shaped_like(output.value, input), shaped_like(output.error, input)};
}

Rounded moved_by(const Rounded& running, const Rounded& batch, double factor, int precision_bits) {
  const Rounding rounding(precision_bits, 1);
  return {(1 - factor) * running.value + factor * batch.value,
          (1 - factor) * running.error + factor * batch.error +
              rounding.few(most(running) + most(batch))};
}

Rounded stored(const Rounded& computed, Storage format) {
  const double roundoff = std::ldexp(1.0, -format.precision_bits);
  return {computed.value,
          computed.error + roundoff * most(computed) + std::ldexp(1.0, format.finest_bit_log2 - 1)};
}

}  // namespace lockstep::reference
