#include "reference/rounding.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::reference {

namespace {

double finest_bit_of(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);
  auto digits = static_cast<uint64_t>(std::ldexp(fraction, 53));
  int trailing = 0;
  while ((digits & 1) == 0) {
    digits >>= 1;
    ++trailing;
  }
  return std::ldexp(1.0, exponent - 53 + trailing);
}

// The finer of two bits, where 0 stands for none.
double finer(double a, double b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

double largest(const at::Tensor& values) {
  return values.numel() == 0 ? 0.0 : values.abs().max().item<double>();
}

// How far off the product of computed factors is, if it does not round itself.
at::Tensor carried_by_product(const Rounded& a, const Rounded& b) {
  return at::matmul(a.value.abs(), b.error) + at::matmul(a.error, b.value.abs() + b.error);
}

}  // namespace

at::Tensor most(const Rounded& a) {
  return a.value.abs() + a.error;
}

Rounded given(const at::Tensor& value) {
  return {value, value.defined() ? at::zeros_like(value) : at::Tensor()};
}

double Format::roundoff() const {
  // A thousandth more, for what evaluating the bounds themselves rounds away.
  return 1.001 * (std::ldexp(1.0, -precision_bits) + std::ldexp(1.0, -53));
}

double Format::underflow() const {
  switch (precision_bits) {
    case 8:
      return std::ldexp(1.0, -133);
    case 11:
      return std::ldexp(1.0, -24);
    case 24:
      return std::ldexp(1.0, -149);
    default:
      return std::ldexp(1.0, -1074);
  }
}

void Arithmetic::saw_sums(const at::Tensor& totals, double unit) {
  const double total = largest(totals);
  if (total > 0 && unit > 0) units_max_ = std::max(units_max_, total / unit);
  // A unit that underflows to zero has no exact representation anywhere.
  if (total > 0 && unit == 0) units_max_ = std::numeric_limits<double>::infinity();
}

at::Tensor Arithmetic::summing(const at::Tensor& totals, int64_t terms) const {
  const auto count = static_cast<double>(terms);
  const double n = count * format_.roundoff();
  return totals * (n / (1 - n)) + 2 * count * format_.underflow();
}

Rounded Arithmetic::affine(const Rounded& x, const Rounded& weight, const Rounded& bias) {
  const auto across = weight.value.t();
  auto value = at::matmul(x.value, across);
  auto totals = at::matmul(x.value.abs(), across.abs());
  double unit = finest_bit(x.value) * finest_bit(across);
  if (bias.value.defined()) {
    value = value + bias.value;
    totals = totals + bias.value.abs();
    unit = finer(unit, finest_bit(bias.value));
  }
  saw_sums(totals, unit);
  if (format_.exact) return given(value);
  auto carried = carried_by_product(x, {across, weight.error.t()});
  if (bias.value.defined()) carried = carried + bias.error;
  return {value, carried + summing(totals + carried, x.value.size(1) + 1)};
}

Rounded Arithmetic::product(const Rounded& a, const Rounded& b) {
  const auto value = at::matmul(a.value, b.value);
  const auto totals = at::matmul(a.value.abs(), b.value.abs());
  saw_sums(totals, finest_bit(a.value) * finest_bit(b.value));
  if (format_.exact) return given(value);
  const auto carried = carried_by_product(a, b);
  return {value, carried + summing(totals + carried, a.value.size(1))};
}

Rounded Arithmetic::sum_of_samples(const Rounded& values) {
  const auto value = values.value.sum(0);
  saw_sums(values.value.abs().sum(0), finest_bit(values.value));
  if (format_.exact) return given(value);
  return {value, values.error.sum(0) + summing(most(values).sum(0), values.value.size(0))};
}

Rounded Arithmetic::plus(const Rounded& a, const Rounded& b) {
  const auto value = a.value + b.value;
  saw_sums(a.value.abs() + b.value.abs(), finer(finest_bit(a.value), finest_bit(b.value)));
  if (format_.exact) return given(value);
  return {value, a.error + b.error + summing(most(a) + most(b), 1)};
}

Rounded Arithmetic::times(const Rounded& values, double factor) {
  const auto value = values.value * factor;
  saw_sums(value.abs(), finest_bit(value));
  if (format_.exact) return given(value);
  const double size = std::abs(factor);
  return {value, values.error * size + summing(most(values) * size, 1)};
}

Rounded Arithmetic::average(const std::vector<Rounded>& by_rank) {
  const auto world = static_cast<double>(by_rank.size());
  auto value = at::zeros_like(by_rank.front().value);
  auto totals = at::zeros_like(value), carried = at::zeros_like(value);
  double unit = 0;
  for (const auto& rank : by_rank) {
    const auto share = rank.value / world;
    value = value + share;
    totals = totals + share.abs();
    carried = carried + rank.error / world;
    unit = finer(unit, finest_bit(share));
  }
  saw_sums(totals, unit);
  if (format_.exact) return given(value);
  // The reciprocal, the product with it, and the sum.
  return {value, carried + summing(totals + carried, static_cast<int64_t>(by_rank.size()) + 1)};
}

double finest_bit(const at::Tensor& values) {
  const auto flat = values.contiguous();
  const auto* data = flat.const_data_ptr<double>();
  double finest = 0;
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (const double bit = finest_bit_of(data[i]); bit > 0 && (finest == 0 || bit < finest))
      finest = bit;
  return finest;
}

}  // namespace lockstep::reference
