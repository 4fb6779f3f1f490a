#include "harness/recorded/tolerance.h"

#include "harness/base/dtype.h"

#include <algorithm>
#include <cmath>

namespace lockstep::recorded {

namespace {

double unit_roundoff(const std::string& dtype) {
  const int bits = traits_of(dtype).precision_bits;
  return bits == 0 ? 0 : std::ldexp(1.0, -bits);
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

double squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

// The differences of the elements; empty where the tensors are not of one shape.
std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return {};
  std::vector<double> out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] - b[i];
  return out;
}

bool is_floating(const std::string& dtype) {
  return unit_roundoff(dtype) > 0;
}

}  // namespace

double Tolerance::allowed() const {
  return kToleranceFactor * std::max({moved, typical, stored});
}

std::vector<Tolerance> Tolerances::at(const TensorPoint& point, const Digests& is,
                                      const std::vector<const Digests*>& moved) {
  const auto count = is.list->tensors.size();
  std::vector<Tolerance> all(count);
  std::vector<double> sizes(count);
  double size = 0;
  std::vector<double> moves(moved.size(), 0);
  for (size_t tensor = 0; tensor < count; ++tensor) {
    const auto& about = is.list->tensors[tensor];
    if (!is_floating(about.dtype)) continue;
    const auto values = as_doubles(is.elements[tensor]);
    sizes[tensor] = largest(values);
    size += squares(values);
    auto& furthest = furthest_[{point.stage, point.of, about.name}];
    for (size_t run = 0; run < moved.size(); ++run) {
      if (moved[run]->list->tensors != is.list->tensors) continue;
      const auto by = differences(as_doubles(moved[run]->elements[tensor]), values);
      moves[run] += squares(by);
      furthest = std::max(furthest, largest(by));
    }
    all[tensor].moved = furthest;
    all[tensor].stored = unit_roundoff(about.dtype) * sizes[tensor];
  }
  const double relative = size > 0 ? std::sqrt(largest(moves) / size) : 0;
  for (size_t tensor = 0; tensor < count; ++tensor) all[tensor].typical = relative * sizes[tensor];
  return all;
}

}  // namespace lockstep::recorded
