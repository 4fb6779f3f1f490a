#include "harness/base/dtype.h"
#include "harness/base/text.h"
#include "harness/verdict/diagnose.h"
#include "harness/verdict/element.h"
#include "harness/verdict/relation.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

// The largest number of ways to sum one contribution of each rank that is searched.
constexpr size_t kMixturesMax = 4096;

// The contributions, one of each rank, that sum to `seen`: the first solution found; none if there
// is none.
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

// Where only some ranks differ the text names them.
Diagnosis where_it_differs(const Difference& is, const std::vector<size_t>& wrong,
                           const Diagnosis& diagnosis) {
  if (wrong.size() == is.expected.size()) return diagnosis;
  std::vector<std::string> names;
  for (const auto rank : wrong) names.push_back(std::to_string(rank));
  auto out = diagnosis;
  out.text = (wrong.size() == 1 ? "on rank " : "on ranks ") + joined(names, ", ") + ": " + out.text;
  return out;
}

bool same_shapes(const Difference& is) {
  for (size_t rank = 0; rank < is.expected.size(); ++rank)
    if (is.row.by_rank[rank].dtype != is.expected[rank].dtype ||
        is.row.by_rank[rank].shape != is.expected[rank].shape)
      return false;
  return true;
}

// Each rank that differs holds its expected value times its own factor.
std::optional<std::vector<size_t>> ranks_that_hold(const Difference& is,
                                                   const std::vector<double>& factors) {
  if (!same_shapes(is) || (factors.size() != 1 && factors.size() != is.expected.size())) return {};
  const auto wrong = wrong_ranks(is);
  for (const auto rank : wrong) {
    const double factor = factors[factors.size() == 1 ? 0 : rank];
    auto made = as_doubles(is.expected[rank]);
    for (auto& value : made) value *= factor;
    if (!holds(is, rank, made, factor)) return {};
  }
  return wrong;
}

// "rank 0 holds 1.5 x, rank 1 0.5 x": for a few of the ranks that differ.
std::string ratios_text(const std::vector<double>& ratios, const std::vector<size_t>& wrong) {
  constexpr size_t kMost = 6;
  constexpr int kDigits = 4;
  std::vector<std::string> parts;
  for (const auto rank : wrong)
    if (parts.size() < kMost)
      parts.push_back("rank " + std::to_string(rank) + " " +
                      number(ratios[ratios.size() == 1 ? 0 : rank], kDigits) + " x");
  return joined(parts, ", ") + (wrong.size() > kMost ? ", ..." : "");
}

// The elements of `instead`, and where the rank holds what is expected that.
std::vector<double> right_elements_and(const TensorValue& instead, const Difference& is,
                                       size_t rank) {
  auto out = as_doubles(instead);
  const auto seen = as_doubles(is.row.by_rank[rank]), right = as_doubles(is.expected[rank]);
  const auto bounds =
      is.bounds.empty() ? std::vector<double>(seen.size(), 0.0) : as_doubles(is.bounds[rank]);
  for (size_t i = 0; i < out.size(); ++i)
    if (std::abs(seen[i] - right[i]) <= bounds[i]) out[i] = seen[i];
  return out;
}

}  // namespace

Explanation recorded_instead(Diagnosis diagnosis, std::vector<TensorValue> by_rank) {
  return [diagnosis = std::move(diagnosis),
          by_rank = std::move(by_rank)](const Difference& is) -> std::optional<Diagnosis> {
    if (by_rank.size() != 1 && by_rank.size() != is.expected.size()) return {};
    const auto wrong = wrong_ranks(is);
    for (const auto rank : wrong) {
      const auto& instead = by_rank[by_rank.size() == 1 ? 0 : rank];
      const auto& seen = is.row.by_rank[rank];
      if (close(seen, instead, is.bounds.empty() ? nullptr : &is.bounds[rank])) continue;
      // A mistake may round where the right computation does not.
      const bool may_round =
          same_shape(seen, instead) && traits_of(seen.dtype).kind == NumberKind::floating;
      if (!may_round || !holds(is, rank, as_doubles(instead))) return {};
    }
    return where_it_differs(is, wrong, diagnosis);
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

Explanation sum_not_average(std::string what) {
  return [what = std::move(what)](const Difference& is) -> std::optional<Diagnosis> {
    const auto wrong = ranks_that_hold(is, {static_cast<double>(is.expected.size())});
    if (!wrong) return {};
    return where_it_differs(is, *wrong,
                            {"sum_not_average", "the SUM of the ranks' " + what +
                                                    ", not the average (every value is "
                                                    "world_size x too big)"});
  };
}

Explanation divided_twice() {
  return [](const Difference& is) -> std::optional<Diagnosis> {
    const auto wrong = ranks_that_hold(is, {1 / static_cast<double>(is.expected.size())});
    if (!wrong) return {};
    return where_it_differs(is, *wrong,
                            {"divided_twice", "the average divided by the world size once more"});
  };
}

Explanation last_steps_value(std::vector<TensorValue> previous) {
  const auto recorded = recorded_instead({"last_steps_value", "still the value of the step before"},
                                         std::move(previous));
  return [recorded](const Difference& is) {
    auto diagnosis = recorded(is);
    if (diagnosis && is.expected.size() > 1 && wrong_ranks(is).size() == 1)
      diagnosis->pattern = "one_rank_stale";
    return diagnosis;
  };
}

Explanation off_by_batch_ratio(std::vector<double> ratios) {
  return [ratios = std::move(ratios)](const Difference& is) -> std::optional<Diagnosis> {
    const auto wrong = ranks_that_hold(is, ratios);
    if (!wrong) return {};
    return Diagnosis{"off_by_batch_ratio", "off by the ratio in which the batch is divided: " +
                                               ratios_text(ratios, *wrong) + " the reference"};
  };
}

Explanation average_of_averages(std::vector<TensorValue> by_rank) {
  return recorded_instead(
      {"average_of_averages",
       "the average of the ranks' own averages: parts of unequal size weigh alike"},
      std::move(by_rank));
}

Explanation not_reduced(std::vector<TensorValue> by_rank) {
  const auto whole = recorded_instead(
      {"not_reduced", "each holds its own contribution alone: it was never reduced"}, by_rank);
  return [whole, by_rank = std::move(by_rank)](const Difference& is) -> std::optional<Diagnosis> {
    if (auto diagnosis = whole(is)) return diagnosis;
    if (by_rank.size() != is.expected.size() || !same_shapes(is)) return {};
    const auto wrong = wrong_ranks(is);
    size_t unlike = 0;  // elements; one alone may be its contribution by chance
    for (const auto rank : wrong) {
      if (!same_shape(is.row.by_rank[rank], by_rank[rank])) return {};
      const auto mixed = right_elements_and(by_rank[rank], is, rank);
      if (!holds(is, rank, mixed)) return {};
      const auto right = as_doubles(is.expected[rank]);
      for (size_t i = 0; i < mixed.size(); ++i) unlike += mixed[i] != right[i];
    }
    if (unlike < 2) return {};
    return where_it_differs(is, wrong,
                            {.pattern = "not_reduced",
                             .text = "each holds its own contribution alone in the elements that "
                                     "differ: these were never reduced",
                             .cause = "an all_reduce that ends before its tensor does, or leaves a "
                                      "parameter out: compare the number of elements that it sends "
                                      "with that of the parameters"});
  };
}

Explanations initial_states(const std::vector<TensorValue>& own, const std::string& cause) {
  Explanations all{recorded_instead({.pattern = "own_initial_state",
                                     .text = "the values it was built with: rank 0's never came",
                                     .cause = cause},
                                    own)};
  for (size_t rank = 1; rank < own.size(); ++rank)
    all.push_back(recorded_instead(
        {"took_another_ranks_state",
         "the values that rank " + std::to_string(rank) + " was built with, not rank 0's"},
        {own[rank]}));
  return all;
}

Explanation anothers_value(std::vector<Contribution> others) {
  return [others = std::move(others)](const Difference& is) -> std::optional<Diagnosis> {
    for (const auto& other : others) {
      if (other.by_rank.empty() || all_zero(other.by_rank.front())) continue;
      const auto recorded = recorded_instead(
          {"parameters_permuted", "the value that " + other.name + " should hold"}, other.by_rank);
      if (auto diagnosis = recorded(is)) return diagnosis;
    }
    return {};
  };
}

}  // namespace lockstep
