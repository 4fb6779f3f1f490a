// What ranks hold and what was expected of them, as numbers.
#pragma once

#include "harness/core/diagnose.h"

namespace lockstep {

using Doubles = std::vector<double>;

// A mistake shows where it moves an element this many times as far as rounding may.
inline constexpr double kTelling = 8;

// The ranks that do not hold what was expected of them, in order.
std::vector<size_t> wrong_ranks(const Difference& difference);

// Whether `rank` holds `made` instead of what was expected of it; `magnified` is how much larger
// than its bound a mistake makes the error of an element.
bool holds(const Difference& difference, size_t rank, const std::vector<double>& made,
           double magnified = 1);

// A row and the ranks of it that differ, of which there is one at least. What each of them holds is
// of its expected dtype, shape and size; shapes may differ by rank.
struct WrongRow {
  const Difference& row;
  std::vector<size_t> ranks;
};

// The values of the ranks that differ. Their order is that of `wrong`.
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
  bool is_whole() const { return dtype().find("float") == std::string::npos; }

  // Whether what `make` makes of the wanted values is held by every rank that differs.
  template <class Make>
  bool all_hold(Make make, double magnified = 1) const {
    for (size_t at = 0; at < wrong.size(); ++at)
      if (!holds(is, wrong[at], make(wanted[at]), magnified)) return false;
    return true;
  }
};

}  // namespace lockstep
