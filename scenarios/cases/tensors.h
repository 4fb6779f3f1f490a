// Helpers for all shapes of cases: from drawn numbers to tensors, and from a rank's tensors to
// records.
#pragma once

#include "harness/base/case.h"
#include "harness/base/values.h"
#include "harness/rank/tensors.h"
#include "harness/verdict/verdict.h"
#include "reference/rounding.h"

namespace lockstep::scenarios {

// The precision in which values of this dtype are computed: halves are computed in float32.
int precision_bits(Dtype dtype);

// Values from `first` on, in row-major order: whole numbers of at most `most`, or any numbers
// between -1 and 1. float64.
at::Tensor whole_numbers(Counter first, int64_t most, at::IntArrayRef shape);
at::Tensor real_numbers(Counter first, at::IntArrayRef shape);

// Why ranks that multiply by the rounded reciprocal of their number may not get the quotient of a
// multiple of it, in float32 or float64: of worlds below 32, with 7, 13, 14, 15, 26, 28 and 30
// ranks. Empty where they always do.
std::string why_shares_round(const WorldSpec& world);

// `value` as a rank would record it.
TensorValue recorded(const at::Tensor& value, at::ScalarType dtype);

// An expected value in its dtype, and its bound: the conversion rounds it once more.
struct Written {
  TensorValue value, bound;
};
Written written(const reference::Rounded& right, at::ScalarType dtype);

// The gradient of `leaf` as a program records it: a tensor of no elements if it is undefined.
at::Tensor gradient_or_nothing(const at::Tensor& leaf);

// While it lives, so many threads of this rank share the work of an operation.
class IntraOpThreads {
 public:
  explicit IntraOpThreads(int count);
  ~IntraOpThreads();
  IntraOpThreads(const IntraOpThreads&) = delete;
  IntraOpThreads& operator=(const IntraOpThreads&) = delete;

 private:
  int before_;
};

// One finding if a rank recorded an undefined gradient in one of these rows; none otherwise.
Findings gradients_are_defined(const std::vector<Row>& gradients);

}  // namespace lockstep::scenarios
