// The values of ranks and their expected values, as numbers.
#pragma once

#include "harness/verdict/diagnose.h"
#include "harness/verdict/element.h"

namespace lockstep {

using Doubles = std::vector<double>;

// A mistake is visible where it moves an element this many times as far as rounding may.
inline constexpr double kDecisiveFactor = 8;

// The ranks that do not hold their expected value, in order.
std::vector<size_t> wrong_ranks(const Difference& difference);

// True of no elements, too.
bool all_zero(const TensorValue& value);

// True if `rank` holds `made` instead of its expected value; `magnified` is how much larger than
// its bound a mistake makes the error of an element.
bool holds(const Difference& difference, size_t rank, const std::vector<double>& made,
           double magnified = 1);

// A row and the ranks of it that differ, at least one. Each of them holds a value of its expected
// dtype, shape and size; shapes may differ by rank.
struct WrongRow {
  const Difference& row;
  std::vector<size_t> ranks;
};

// The values of the ranks that differ, in the order of `wrong`.
struct Numbers {
  const Difference& is;
  const std::vector<size_t>& wrong;
  std::vector<Doubles> seen, wanted, bounds;
  double world = 1;

  explicit Numbers(const WrongRow& one);
  const std::string& dtype() const { return is.expected[wrong.front()].dtype; }
  const std::vector<int64_t>& shape() const { return is.expected[wrong.front()].shape; }
  size_t elements() const { return wanted.front().size(); }
  bool one_shape() const;
  bool is_whole() const { return lockstep::is_whole(dtype()); }

  // True if every rank that differs holds what `make` makes of the expected values.
  template <class Make>
  bool all_hold(Make make, double magnified = 1) const {
    for (size_t at = 0; at < wrong.size(); ++at)
      if (!holds(is, wrong[at], make(wanted[at]), magnified)) return false;
    return true;
  }
};

}  // namespace lockstep
