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

bool same_shape(const TensorValue& a, const TensorValue& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

bool is_whole(const std::string& dtype) {
  return dtype.find("float") == std::string::npos;
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

Diagnosis by_rank_pattern(const Difference& is, const Values& seen) {
  std::vector<size_t> wrong;
  for (size_t rank = 0; rank < seen.size(); ++rank)
    if (!close(is.row.by_rank[rank], is.expected[rank],
               is.bounds.empty() ? nullptr : &is.bounds[rank]))
      wrong.push_back(rank);
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

// The largest number of ways to sum one contribution a rank that is searched.
constexpr size_t kMixturesMax = 4096;

// Which contribution of each rank sums to `seen`; the first way found, none if there is none.
std::optional<std::vector<std::string>> names_summed(const TensorValue& seen,
                                                     const std::vector<Contribution>& all) {
  std::vector<const Contribution*> fitting;
  for (const auto& one : all)
    if (!one.by_rank.empty() && one.by_rank.front().shape == seen.shape) fitting.push_back(&one);
  if (fitting.empty()) return {};
  const size_t world = fitting.front()->by_rank.size();
  const auto wanted = as_doubles(seen);
  std::vector<size_t> choice(world, 0);
  for (size_t tried = 0; tried < kMixturesMax; ++tried) {
    std::vector<double> sum(wanted.size(), 0.0);
    for (size_t rank = 0; rank < world; ++rank) {
      const auto part = as_doubles(fitting[choice[rank]]->by_rank[rank]);
      for (size_t i = 0; i < sum.size() && i < part.size(); ++i) sum[i] += part[i];
    }
    if (sum == wanted) {
      std::vector<std::string> names;
      for (const auto at : choice) names.push_back(fitting[at]->name);
      return names;
    }
    size_t digit = 0;
    while (digit < world && ++choice[digit] == fitting.size()) choice[digit++] = 0;
    if (digit == world) return {};
  }
  return {};
}

std::string mixture_text(size_t holder, const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (size_t rank = 0; rank < names.size(); ++rank)
    parts.push_back(names[rank] + " of rank " + std::to_string(rank));
  return "gradients of different parameters were averaged together (rank " +
         std::to_string(holder) + " holds " + joined(parts, " + ") +
         "): buckets met in an order that differs between ranks";
}

}  // namespace

bool close(const TensorValue& a, const TensorValue& b, const TensorValue* bound) {
  if (!same_shape(a, b) || a.bytes.size() != b.bytes.size()) return false;
  if (a.bytes == b.bytes) return true;
  if (is_whole(a.dtype)) return false;
  const auto left = as_doubles(a), right = as_doubles(b);
  const auto allowed = bound ? as_doubles(*bound) : std::vector<double>(left.size(), 0.0);
  if (allowed.size() != left.size()) throw std::invalid_argument("a bound of another shape");
  for (size_t i = 0; i < left.size(); ++i) {
    const bool both_nan = std::isnan(left[i]) && std::isnan(right[i]);
    if (!both_nan && left[i] != right[i] && !(std::abs(left[i] - right[i]) <= allowed[i]))
      return false;
  }
  return true;
}

Explanation recorded_instead(Diagnosis diagnosis, std::vector<TensorValue> by_rank) {
  return [diagnosis = std::move(diagnosis),
          by_rank = std::move(by_rank)](const Difference& is) -> std::optional<Diagnosis> {
    std::vector<std::string> wrong;
    for (size_t rank = 0; rank < is.expected.size(); ++rank) {
      const auto* bound = is.bounds.empty() ? nullptr : &is.bounds[rank];
      if (close(is.row.by_rank[rank], is.expected[rank], bound)) continue;
      const auto& instead = by_rank[by_rank.size() == 1 ? 0 : rank];
      if (!close(is.row.by_rank[rank], instead, bound)) return {};
      wrong.push_back(std::to_string(rank));
    }
    if (wrong.size() == is.expected.size()) return diagnosis;
    return Diagnosis{diagnosis.pattern, (wrong.size() == 1 ? "on rank " : "on ranks ") +
                                            joined(wrong, ", ") + ": " + diagnosis.text};
  };
}

Explanation summed_under_other_names(std::string name, std::vector<Contribution> contributions) {
  return [name = std::move(name),
          all = std::move(contributions)](const Difference& is) -> std::optional<Diagnosis> {
    std::string text;
    for (size_t rank = 0; rank < is.row.by_rank.size(); ++rank) {
      const auto names = names_summed(is.row.by_rank[rank], all);
      if (!names) return {};
      const bool foreign = std::any_of(names->begin(), names->end(),
                                       [&](const auto& summed) { return summed != name; });
      if (foreign && text.empty()) text = mixture_text(rank, *names);
    }
    if (text.empty()) return {};
    return Diagnosis{"parameters_mixed", text};
  };
}

Diagnosis diagnose(const Difference& is, const Explanations& explanations) {
  for (const auto& explanation : explanations)
    if (auto diagnosis = explanation(is)) return *diagnosis;
  for (size_t rank = 0; rank < is.expected.size(); ++rank)
    if (!same_shape(is.row.by_rank[rank], is.expected[rank]))
      return {"other_shape", "dtype or shape differs: " + shape_text(is.row.by_rank[rank]) +
                                 " where " + shape_text(is.expected[rank]) + " is right"};
  const Values values = doubles(is.row.by_rank);
  const Values wanted = doubles(is.expected);
  if (const auto factor = common_factor(values, wanted))
    return by_factor(*factor, static_cast<double>(values.size()));
  return by_rank_pattern(is, values);
}

}  // namespace lockstep
