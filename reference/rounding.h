// Arithmetic in double precision that knows what a narrower format would make of it: whether that
// format computes the same numbers exactly, and how far off it may be where it does not. Both hold
// for any order of summation, fused or not. docs/numerics.md derives each rule.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::reference {

// A value, and a bound on the distance of any computation of it in the format, element by element.
// Both float64 and of one shape; an undefined value has an undefined error.
struct Rounded {
  at::Tensor value, error;
};

// The largest absolute value that the computed one can have.
at::Tensor most(const Rounded& a);

// A value that is given and not computed: without error.
Rounded given(const at::Tensor& value);

// A floating-point format. `exact` claims that nothing rounds, which units_max() then certifies;
// errors are zero.
struct Format {
  int precision_bits = 24;  // 24 for float32, 53 for float64, 11 for float16, 8 for bfloat16
  bool exact = true;

  // The largest relative error of one operation in the format, and of the same in double precision,
  // which is what the reference itself commits.
  double roundoff() const;
  // The largest error of one operation whose result is too small for the format.
  double underflow() const;
};

class Arithmetic {
 public:
  explicit Arithmetic(Format format) : format_(format) {}

  // x [samples, inputs] weight^T [inputs, outputs], plus bias [outputs] where there is one.
  Rounded affine(const Rounded& x, const Rounded& weight, const Rounded& bias);
  Rounded product(const Rounded& a, const Rounded& b);  // a b, matrices
  Rounded sum_of_samples(const Rounded& values);        // over the first axis
  Rounded plus(const Rounded& a, const Rounded& b);
  // By a factor that the format holds exactly.
  Rounded times(const Rounded& values, double factor);
  // The average over ranks as DDP forms it: each rank's times the rounded 1/W, or over W; then
  // summed in any order.
  Rounded average(const std::vector<Rounded>& by_rank);

  // The largest absolute value that any partial sum can have reached, in units of the finest bit of
  // its terms: a format with p bits of precision computed all of them exactly if this is at most
  // 2^p.
  double units_max() const { return units_max_; }

  const Format& format() const { return format_; }

 private:
  // Terms whose absolute values sum up to at most `totals`, all multiples of `unit`, a power of
  // two.
  void saw_sums(const at::Tensor& totals, double unit);
  // The error of a sum of `terms` rounded terms, whose absolute values sum up to `totals`.
  at::Tensor summing(const at::Tensor& totals, int64_t terms) const;

  Format format_;
  double units_max_ = 0;
};

// The finest bit of any element, as a power of two; 0 if all elements are zero.
double finest_bit(const at::Tensor& values);

}  // namespace lockstep::reference
