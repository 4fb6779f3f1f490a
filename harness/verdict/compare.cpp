#include "harness/verdict/compare.h"

#include "harness/base/dtype.h"
#include "harness/verdict/divergence.h"
#include "harness/verdict/element.h"
#include "harness/verdict/relation.h"

#include <algorithm>
#include <bit>

namespace lockstep {

namespace {

template <class Float, class Bits>
int64_t ulps(double a, double b) {
  const auto ordered = [](double value) {
    const auto bits = std::bit_cast<Bits>(static_cast<Float>(value));
    const auto sign = Bits{1} << (8 * sizeof(Bits) - 1);
    // Maps the sign-and-magnitude order of floats to the order of integers.
    return bits & sign ? -static_cast<int64_t>(bits & ~sign) : static_cast<int64_t>(bits);
  };
  return std::abs(ordered(a) - ordered(b));
}

// The rank of a number among all of its dtype.
int64_t ordinal(double value, const DtypeTraits& traits) {
  const auto [dtype, bytes, kind, precision, least] = traits;
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = std::max(exponent, least);
  const auto steps = static_cast<int64_t>(std::ldexp(std::abs(value), precision - exponent));
  const auto magnitude = (int64_t{exponent - least} << (precision - 1)) + steps;
  return value < 0 ? -magnitude : magnitude;
}

}  // namespace

int64_t ulp_distance(double a, double b, const std::string& dtype) {
  if (a == b) return 0;
  if (dtype == "float32") return ulps<float, uint32_t>(a, b);
  if (std::isfinite(a) && std::isfinite(b)) {
    const auto traits = traits_of(dtype);
    if (traits.bytes == 2 && traits.precision_bits > 0)
      return std::abs(ordinal(a, traits) - ordinal(b, traits));
  }
  return ulps<double, uint64_t>(a, b);
}

namespace {

std::vector<TensorValue> for_each_rank(std::vector<TensorValue> values, const Row& row,
                                       const char* what) {
  if (values.size() == 1) values.assign(row.by_rank.size(), TensorValue(values.front()));
  if (values.size() != row.by_rank.size())
    throw std::invalid_argument("equal: " + std::to_string(values.size()) + " " + what + " for " +
                                std::to_string(row.by_rank.size()) + " ranks");
  return values;
}

Difference difference_of(const Comparison& one) {
  return {one.row, for_each_rank(one.expected, one.row, "expected values"),
          one.bounds.empty() ? one.bounds : for_each_rank(one.bounds, one.row, "bounds")};
}

// True if `rank` holds in one row the expected value of another, and not this row's.
bool is_displaced(const std::vector<Difference>& rows, size_t at, size_t rank) {
  const auto holds_value_of = [&](size_t other) {
    return close(rows[at].row.by_rank[rank], rows[other].expected[rank],
                 rows[other].bounds.empty() ? nullptr : &rows[other].bounds[rank]);
  };
  bool elsewhere = false;
  for (size_t other = 0; other < rows.size(); ++other)
    elsewhere = elsewhere || (other != at && holds_value_of(other));
  return elsewhere && !holds_value_of(at);
}

// The expected values of other names at the same moment. A value that occurs under a wrong name by
// chance leaves its own place right, or with a value that belongs nowhere.
std::vector<Contribution> others(const std::vector<Difference>& rows, size_t first) {
  std::vector<Contribution> out;
  const size_t rank = wrong_ranks(rows[first]).front();
  for (size_t at = 0; at < rows.size(); ++at)
    if (at != first && same_shape(rows[at].expected.front(), rows[first].expected.front()) &&
        is_displaced(rows, at, rank))
      out.push_back({rows[at].row.name, rows[at].expected});
  return out;
}

// How many values of ranks differ from what is right.
size_t wrong_values(const std::vector<Difference>& rows) {
  size_t count = 0;
  for (const auto& row : rows)
    for (const auto rank : wrong_ranks(row)) {
      if (!comparable(row.row.by_rank[rank], row.expected[rank])) continue;
      const auto seen = as_doubles(row.row.by_rank[rank]), right = as_doubles(row.expected[rank]);
      for (size_t i = 0; i < seen.size(); ++i) count += seen[i] != right[i] ? 1 : 0;
    }
  return count;
}

// Explanations by what the row should hold in other steps. Among several steps a value or two fit
// one by chance.
Explanations other_steps_values(const Comparison& one, const std::vector<Comparison>& rows,
                                const std::vector<Difference>& of_the_moment) {
  constexpr size_t kDecisive = 3;
  if (wrong_values(of_the_moment) < kDecisive) return {};
  Explanations out;
  for (const auto& other : rows)
    if (other.row.name == one.row.name && other.row.at.phase == one.row.at.phase &&
        other.row.at.step != one.row.at.step)
      out.push_back(recorded_instead(
          {"another_steps_value", "what was right in step " + std::to_string(other.row.at.step)},
          other.expected));
  return out;
}

// Whether the ranks agree shows where to look: at what all ranks do alike, or at what one rank does
// differently.
Details note(const Difference& is, const Diagnosis& diagnosis) {
  if (is.row.by_rank.size() < 2 || !all_alike(is.expected)) return {};
  if (!all_alike(is.row.by_rank)) return {"note: the ranks differ from each other"};
  if (diagnosis.text == kOnlyTheReferenceShows) return {};
  return {std::string("note: ") + kOnlyTheReferenceShows};
}

// The first explanation of the first wrong row whose pattern also explains every other wrong row of
// the moment: an explanation that fits one row by chance, such as a swap of two numbers or a factor
// of a single one, seldom fits all.
std::optional<Diagnosis> explained(const std::vector<Difference>& rows, size_t first,
                                   const std::vector<Explanations>& explanations) {
  const auto fits = [&](size_t at, const std::string& pattern) {
    return std::any_of(explanations[at].begin(), explanations[at].end(),
                       [&](const Explanation& explanation) {
                         const auto diagnosis = explanation(rows[at]);
                         return diagnosis && diagnosis->pattern == pattern;
                       });
  };
  for (const auto& explanation : explanations[first]) {
    const auto diagnosis = explanation(rows[first]);
    if (!diagnosis) continue;
    bool everywhere = true;
    for (size_t at = 0; at < rows.size() && everywhere; ++at)
      everywhere = wrong_ranks(rows[at]).empty() || fits(at, diagnosis->pattern);
    if (everywhere) return diagnosis;
  }
  return {};
}

Finding finding(const std::string& rule, const Row& row, const FindingPlace& where,
                const Diagnosis& diagnosis, Details details) {
  details.insert(details.begin(), "first divergence: " + where.text());
  return {.rule = rule,
          .pattern = diagnosis.pattern,
          .where = where,
          .diagnosis = row.name + ": " + diagnosis.text,
          .details = std::move(details),
          .specificity = diagnosis.specificity,
          .cause = diagnosis.cause};
}

// True if a row of numbers that are not all zero is right.
bool any_is_right(const std::vector<Difference>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Difference& is) {
    return wrong_ranks(is).empty() && !all_zero(is.expected.front());
  });
}

Finding finding(const std::string& rule, const std::vector<Difference>& rows, size_t first,
                std::vector<Explanations> explanations) {
  const Difference& is = rows[first];
  // First, since it is the strictest: two values are exchanged.
  for (size_t at = 0; at < rows.size(); ++at)
    if (!wrong_ranks(rows[at]).empty())
      explanations[at].insert(explanations[at].begin(), anothers_value(others(rows, at)));
  auto diagnosis = explained(rows, first, explanations);
  if (!diagnosis) diagnosis = diagnose(is, {}, rows);
  if (diagnosis->pattern == "not_reduced" && diagnosis->cause.empty() && any_is_right(rows))
    diagnosis->cause =
        "the parameter is in no bucket, or its bucket was not sent: compare the parameters of the "
        "buckets with model.parameters()";
  auto details = divergence(rows, first);
  details += note(is, *diagnosis);
  return finding(rule, is.row,
                 place(is.row, is.expected[wrong_ranks(is).front()], first_element(is)), *diagnosis,
                 std::move(details));
}

// True if both fit in one table: rows of one moment, recorded by as many ranks.
bool stand_together(const Row& a, const Row& b) {
  return a.at == b.at && a.by_rank.size() == b.by_rank.size();
}

}  // namespace

Findings equal(const std::string& rule, const std::vector<Comparison>& rows) {
  for (const auto& one : rows) {
    if (wrong_ranks(difference_of(one)).empty()) continue;
    std::vector<Difference> of_the_moment;
    std::vector<const Comparison*> comparisons;
    size_t first = 0;
    for (const auto& other : rows) {
      if (!stand_together(one.row, other.row)) continue;
      if (&other == &one) first = of_the_moment.size();
      comparisons.push_back(&other);
      of_the_moment.push_back(difference_of(other));
    }
    std::vector<Explanations> explanations(comparisons.size());
    for (size_t at = 0; at < comparisons.size(); ++at) {
      if (wrong_ranks(of_the_moment[at]).empty()) continue;
      if (comparisons[at]->explanations) explanations[at] = comparisons[at]->explanations();
      for (auto& more : other_steps_values(*comparisons[at], rows, of_the_moment))
        explanations[at].push_back(std::move(more));
    }
    return {finding(rule, of_the_moment, first, std::move(explanations))};
  }
  return {};
}

Findings alike(const std::string& rule, const std::vector<Row>& rows) {
  for (const auto& one : rows) {
    const Difference is{one, std::vector(one.by_rank.size(), one.by_rank.front()), {}};
    if (wrong_ranks(is).empty()) continue;
    std::vector<Row> of_the_moment;
    size_t first = 0;
    for (const auto& other : rows) {
      if (&other == &one) first = of_the_moment.size();
      if (stand_together(one, other)) of_the_moment.push_back(other);
    }
    const auto diagnosis = diagnose_disagreement(one, of_the_moment);
    return {finding(rule, one, place(one, one.by_rank.front(), first_element(is)), diagnosis,
                    disagreement(of_the_moment, first))};
  }
  return {};
}

}  // namespace lockstep
