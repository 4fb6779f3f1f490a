#include "harness/core/diagnose.h"

#include "harness/core/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep {

namespace {

using Values = std::vector<std::vector<double>>;  // by rank

Values doubles(const std::vector<TensorValue>& by_rank) {
  Values out;
  for (const auto& value : by_rank) out.push_back(as_doubles(value));
  return out;
}

bool same_shapes(const std::vector<TensorValue>& a, const std::vector<TensorValue>& b) {
  if (a.size() != b.size()) return false;
  for (size_t rank = 0; rank < a.size(); ++rank)
    if (a[rank].dtype != b[rank].dtype || a[rank].shape != b[rank].shape) return false;
  return true;
}

// Equal as numbers, so that the sign of a zero does not hide an explanation.
bool same_values(const std::vector<TensorValue>& a, const std::vector<TensorValue>& b) {
  return same_shapes(a, b) && doubles(a) == doubles(b);
}

// The one number that every element of `seen` is `expected` times; 0 and 1 are no factors.
std::optional<double> common_factor(const Values& seen, const Values& expected) {
  std::optional<double> factor;
  for (size_t rank = 0; rank < seen.size(); ++rank)
    for (size_t i = 0; i < seen[rank].size(); ++i) {
      const double want = expected[rank][i];
      const double have = seen[rank][i];
      if (want == 0 && have == 0) continue;
      if (want == 0 || !std::isfinite(have)) return {};
      if (!factor) factor = have / want;
      if (std::abs(have - *factor * want) > 1e-6 * std::abs(have)) return {};
    }
  if (!factor || *factor == 1) return {};
  return factor;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

bool all_zero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value == 0; });
}

Diagnosis by_factor(double factor, double world) {
  if (factor == 0) return {"all_zero", "it is zero on every rank"};
  const std::string times = "every value is " + number(factor) + " x the reference";
  if (std::abs(factor - world) < 1e-6 * world)
    return {"factor_world_size", times + ", the world size"};
  if (std::abs(factor * world - 1) < 1e-6)
    return {"factor_one_over_world_size", times + ", one over the world size"};
  return {"constant_factor", times};
}

Diagnosis by_rank_pattern(const Values& seen, const Values& expected) {
  std::vector<size_t> wrong;
  for (size_t rank = 0; rank < seen.size(); ++rank)
    if (seen[rank] != expected[rank]) wrong.push_back(rank);
  std::vector<std::string> names;
  for (const auto rank : wrong) names.push_back(std::to_string(rank));
  const bool agree = std::all_of(seen.begin(), seen.end(),
                                 [&](const auto& values) { return values == seen.front(); });
  if (seen.size() > 1 && wrong.size() == seen.size())
    return agree ? Diagnosis{"ranks_agree_reference_differs",
                             "all ranks agree with each other; only the reference exposes this"}
                 : Diagnosis{"every_rank_differs", "no rank holds the reference's value"};
  if (seen.size() > 1 && wrong.size() + 1 == seen.size() && wrong.front() == 1)
    return {"only_rank_zero_right", "only rank 0 holds the reference's value"};
  if (wrong.size() == 1 && seen.size() > 1)
    return all_zero(seen[wrong.front()])
               ? Diagnosis{"one_rank_zero", "rank " + names.front() + " holds zeros"}
               : Diagnosis{"one_rank_differs",
                           "rank " + names.front() + " alone differs from the reference"};
  return {"", "ranks " + joined(names, ", ") + " differ from the reference"};
}

}  // namespace

Diagnosis diagnose(const Row& seen, const std::vector<TensorValue>& expected,
                   const Explanations& explanations) {
  for (const auto& explanation : explanations)
    if (same_values(seen.by_rank, explanation.by_rank))
      return {explanation.pattern, explanation.text};
  if (!same_shapes(seen.by_rank, expected))
    return {"other_shape", "dtype or shape differs: " + shape_text(seen.by_rank.front()) +
                               " where " + shape_text(expected.front()) + " is right"};
  const Values values = doubles(seen.by_rank);
  const Values wanted = doubles(expected);
  if (const auto factor = common_factor(values, wanted))
    return by_factor(*factor, static_cast<double>(values.size()));
  return by_rank_pattern(values, wanted);
}

}  // namespace lockstep
