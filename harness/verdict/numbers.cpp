#include "harness/verdict/numbers.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

// The rounding error of the dtype in a mistake's own result, as a part of that result.
double rounding_of(const std::string& dtype) {
  return dtype == "float32" ? 0x1p-20 : dtype == "float64" ? 0x1p-48 : 0;
}

Doubles bounds_of(const Difference& is, size_t rank, size_t elements) {
  return is.bounds.empty() ? Doubles(elements, 0.0) : as_doubles(is.bounds[rank]);
}

}  // namespace

std::vector<size_t> wrong_ranks(const Difference& is) {
  std::vector<size_t> wrong;
  for (size_t rank = 0; rank < is.expected.size(); ++rank)
    if (!close(is.row.by_rank[rank], is.expected[rank],
               is.bounds.empty() ? nullptr : &is.bounds[rank]))
      wrong.push_back(rank);
  return wrong;
}

bool all_zero(const TensorValue& value) {
  const auto values = as_doubles(value);
  return std::all_of(values.begin(), values.end(), [](double one) { return one == 0; });
}

bool holds(const Difference& is, size_t rank, const std::vector<double>& made, double magnified) {
  const auto seen = as_doubles(is.row.by_rank[rank]), wanted = as_doubles(is.expected[rank]);
  if (made.size() != seen.size() || wanted.size() != seen.size()) return false;
  const auto bounds = bounds_of(is, rank, seen.size());
  const double rounding = rounding_of(is.expected[rank].dtype);
  bool is_decisive = false;
  for (size_t i = 0; i < made.size(); ++i) {
    const double allowed =
        std::max(1.0, std::abs(magnified)) * bounds[i] + rounding * std::abs(made[i]);
    if (!(std::abs(seen[i] - made[i]) <= allowed)) return false;
    is_decisive = is_decisive || std::abs(made[i] - wanted[i]) > kDecisiveFactor * allowed;
  }
  return is_decisive;
}

Numbers::Numbers(const WrongRow& one)
    : is(one.row), wrong(one.ranks), world(static_cast<double>(is.expected.size())) {
  for (const auto rank : wrong) {
    seen.push_back(as_doubles(is.row.by_rank[rank]));
    wanted.push_back(as_doubles(is.expected[rank]));
    bounds.push_back(bounds_of(is, rank, wanted.back().size()));
  }
}

bool Numbers::one_shape() const {
  return std::all_of(wrong.begin(), wrong.end(),
                     [&](size_t rank) { return is.expected[rank].shape == shape(); });
}

}  // namespace lockstep
