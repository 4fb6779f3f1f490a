#include "harness/verdict/relation.h"

#include "harness/base/text.h"
#include "harness/verdict/compare.h"
#include "harness/verdict/element.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace lockstep {

namespace {

constexpr int64_t kLastBitsUlp = 4;
constexpr size_t kRanksNamed = 6;
constexpr int kDigits = 6;

template <class Change>
auto each(Change change) {
  return [change](Doubles values) {
    for (auto& value : values) value = change(value);
    return values;
  };
}

std::optional<Relation> not_finite(const Numbers& is) {
  size_t nan = 0, infinite = 0;
  for (size_t at = 0; at < is.wrong.size(); ++at) {
    bool any = false;
    for (size_t i = 0; i < is.seen[at].size(); ++i) {
      if (std::isfinite(is.seen[at][i]) || !std::isfinite(is.wanted[at][i])) continue;
      any = true;
      if (at == 0) ++(std::isnan(is.seen[at][i]) ? nan : infinite);
    }
    if (!any) return {};
  }
  const std::string kind = nan == 0        ? "infinite"
                           : infinite == 0 ? "not a number"
                                           : "not a number or infinite";
  return Relation{"not_finite", "one_rank_not_finite",
                  with_commas(static_cast<int64_t>(nan + infinite)) + " of " +
                      with_commas(static_cast<int64_t>(is.elements())) + " elements " +
                      (nan + infinite == 1 ? "is " : "are ") + kind};
}

std::optional<Relation> zero(const Numbers& is) {
  for (const auto& values : is.seen)
    if (!std::all_of(values.begin(), values.end(), [](double value) { return value == 0; }))
      return {};
  return Relation{"all_zero", "one_rank_zero", "every value is zero"};
}

// Equal but for the last bits: the same sum in another order, not another value.
std::optional<Relation> last_bits(const Numbers& is) {
  if (is.is_whole()) return {};
  int64_t furthest = 0;
  for (size_t at = 0; at < is.wrong.size(); ++at) {
    for (size_t i = 0; i < is.seen[at].size(); ++i) {
      const double a = is.seen[at][i], b = is.wanted[at][i];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      if (!std::isfinite(a) || !std::isfinite(b)) return {};
      const int64_t ulp = ulp_distance(a, b, is.dtype());
      if (ulp > kLastBitsUlp && std::abs(a - b) > 2 * is.bounds[at][i]) return {};
      furthest = std::max(furthest, ulp);
    }
  }
  if (is.is.bounds.empty())
    return Relation{"last_bits_differ", "",
                    "only the last bits differ, by " + with_commas(furthest) + " ULP at most"};
  return Relation{"just_outside_the_bound", "",
                  "no element is further away than twice its bound, or a few ULP"};
}

// True if large whole numbers were converted through a narrower format.
template <class Float>
bool went_through(const Numbers& is) {
  for (const auto rank : is.wrong) {
    const auto seen = as_integers(is.is.row.by_rank[rank]),
               wanted = as_integers(is.is.expected[rank]);
    for (size_t i = 0; i < seen.size(); ++i)
      if (static_cast<Float>(seen[i]) != static_cast<Float>(wanted[i]) ||
          static_cast<int64_t>(static_cast<Float>(wanted[i])) != seen[i])
        return false;
  }
  return true;
}

std::optional<Relation> through_floating_point(const Numbers& is) {
  if (is.dtype() != "int64") return {};
  const bool is_double = went_through<double>(is);
  if (!is_double && !went_through<float>(is)) return {};
  return Relation{"through_floating_point", "",
                  std::string("what is left of the reference after a way through ") +
                      (is_double ? "float64" : "float32")};
}

bool is_multiple(const Numbers& is, double factor) {
  return factor != 1 && is.all_hold(each([=](double value) { return factor * value; }), factor);
}

// The factor that the largest expected element suggests; there rounding disturbs it least.
double suggested_factor(const Numbers& is) {
  const auto& wanted = is.wanted.front();
  const auto largest = std::max_element(
      wanted.begin(), wanted.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  return *largest == 0 ? 1
                       : is.seen.front()[static_cast<size_t>(largest - wanted.begin())] / *largest;
}

// The expected values that show a factor: those that it moves by far more than their bounds.
void add_shown(const Numbers& is, double factor, std::set<double>& shown) {
  for (size_t at = 0; at < is.wrong.size(); ++at)
    for (size_t i = 0; i < is.wanted[at].size(); ++i) {
      const double wanted = is.wanted[at][i], moved = std::abs((factor - 1) * wanted);
      if (moved > kDecisiveFactor * std::max(1.0, std::abs(factor)) * is.bounds[at][i])
        shown.insert(wanted);
    }
}

std::optional<Relation> multiple(const Numbers& is) {
  if (is.dtype() == "bool") return {};
  const auto times = [](double factor) {
    return "every value is " + number(factor, kDigits) + " x the reference";
  };
  if (is_multiple(is, -1))
    return Relation{"sign_flipped", "", "every value has the opposite sign", -1.0};
  if (is_multiple(is, is.world))
    return Relation{"factor_world_size", "", times(is.world) + ", the world size", is.world};
  if (is_multiple(is, 1 / is.world))
    return Relation{"factor_one_over_world_size", "",
                    times(1 / is.world) + ", one over the world size", 1 / is.world};
  const double factor = suggested_factor(is);
  if (!is_multiple(is, factor)) return {};
  return Relation{"constant_factor", "", times(factor), factor};
}

std::optional<Relation> transposed(const Numbers& is) {
  if (!is.one_shape() || is.shape().size() != 2 || is.shape()[0] < 2 || is.shape()[1] < 2)
    return {};
  const auto rows = static_cast<size_t>(is.shape()[0]),
             columns = static_cast<size_t>(is.shape()[1]);
  const auto transpose = [&](const Doubles& values) {
    Doubles out;
    for (size_t column = 0; column < columns; ++column)
      for (size_t row = 0; row < rows; ++row) out.push_back(values[row * columns + column]);
    return out;
  };
  if (!is.all_hold(transpose)) return {};
  return Relation{"transposed", "", "the right values in column-major order"};
}

// The expected values in the order in which a rank holds them, if it holds them all: the k-th
// smallest expected value stands where the k-th smallest of the rank's does.
Doubles reordered(const Doubles& seen, Doubles wanted) {
  std::vector<size_t> order(seen.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return seen[a] < seen[b]; });
  std::sort(wanted.begin(), wanted.end());
  Doubles out(seen.size());
  for (size_t i = 0; i < order.size(); ++i) out[order[i]] = wanted[i];
  return out;
}

std::optional<Relation> permuted(const Numbers& is) {
  for (size_t at = 0; at < is.wrong.size(); ++at) {
    const auto finite = [](double value) { return std::isfinite(value); };
    if (!std::all_of(is.seen[at].begin(), is.seen[at].end(), finite) ||
        !std::all_of(is.wanted[at].begin(), is.wanted[at].end(), finite) ||
        !holds(is.is, is.wrong[at], reordered(is.seen[at], is.wanted[at])))
      return {};
  }
  return Relation{"elements_permuted", "", "the right values, in other places"};
}

bool is_shift(const Numbers& is, double shift) {
  return shift != 0 && is.all_hold(each([=](double value) { return value + shift; }));
}

// For whole numbers one element is enough: a counter that is one ahead.
std::optional<Relation> shifted(const Numbers& is) {
  const auto& wanted = is.wanted.front();
  const bool is_one_number = std::set<double>(wanted.begin(), wanted.end()).size() == 1;
  if (is.dtype() == "bool" || (is_one_number && !is.is_whole())) return {};
  const double shift = is.seen.front().front() - wanted.front();
  if (!is_shift(is, shift)) return {};
  return Relation{.pattern = "shifted_by_a_constant",
                  .on_one_rank = "",
                  .text = "every value is the reference " + std::string(shift < 0 ? "- " : "+ ") +
                          number(std::abs(shift), kDigits),
                  .shift = shift};
}

// Each rank that differs holds the expected value of some other rank.
std::optional<Relation> other_ranks_value(const Numbers& is) {
  std::vector<std::string> held;
  for (const auto rank : is.wrong) {
    size_t other = 0;
    while (other < is.is.expected.size() &&
           !close(is.is.row.by_rank[rank], is.is.expected[other],
                  is.is.bounds.empty() ? nullptr : &is.is.bounds[rank]))
      ++other;
    if (other == is.is.expected.size()) return {};
    if (held.size() < kRanksNamed)
      held.push_back("rank " + std::to_string(rank) + " holds that of rank " +
                     std::to_string(other));
  }
  return Relation{"another_ranks_value", "",
                  "the value of another rank: " + joined(held, ", ") +
                      (is.wrong.size() > kRanksNamed ? ", ..." : "")};
}

// The elements that differ on any rank, by the rule of `close`.
std::vector<size_t> differing(const Numbers& is) {
  std::vector<size_t> out;
  for (size_t i = 0; i < is.elements(); ++i) {
    bool differs = false;
    for (size_t at = 0; at < is.wrong.size(); ++at) {
      const double a = is.seen[at][i], b = is.wanted[at][i];
      const bool both_nan = std::isnan(a) && std::isnan(b);
      differs = differs || (!both_nan && a != b && !(std::abs(a - b) <= is.bounds[at][i]));
    }
    if (differs) out.push_back(i);
  }
  return out;
}

std::optional<Relation> some_elements(const Numbers& is) {
  if (!is.one_shape() || is.elements() < 3) return {};
  const auto wrong = differing(is);
  if (wrong.empty()) return {};
  const std::string all = with_commas(static_cast<int64_t>(is.elements()));
  if (wrong.size() == 1)
    return Relation{"one_element_differs", "", "one element of " + all + " differs"};
  const bool to_the_end =
      wrong.back() + 1 == is.elements() && wrong.back() - wrong.front() + 1 == wrong.size();
  if (!to_the_end || wrong.front() < 2) return {};
  return Relation{"tail_differs", "",
                  "the first " + with_commas(static_cast<int64_t>(wrong.front())) + " of " + all +
                      " elements are right, all after them are not"};
}

using Namer = std::optional<Relation> (*)(const Numbers&);

// NaN is no coincidence, so no other row contradicts it.
bool holds_beside(Namer named, const Relation& relation, const WrongRow& other) {
  if (named == not_finite) return true;
  for (const auto rank : other.ranks)
    if (!comparable(other.row.row.by_rank[rank], other.row.expected[rank])) return false;
  const Numbers numbers(other);
  if (numbers.elements() == 0) return false;
  if (relation.factor) return is_multiple(numbers, *relation.factor);
  if (relation.shift) return is_shift(numbers, *relation.shift);
  const auto there = named(numbers);
  return there && there->pattern == relation.pattern;
}

// Any number is a multiple of any other, and small whole numbers are often twice, half or the
// negative of another by chance: a factor needs three unlike numbers that show it.
bool is_decisive(const Relation& relation, const Numbers& numbers,
                 const std::vector<WrongRow>& beside) {
  constexpr size_t kDecisive = 3;
  if (!relation.factor) return true;
  std::set<double> shown;
  add_shown(numbers, *relation.factor, shown);
  for (const auto& other : beside) add_shown(Numbers(other), *relation.factor, shown);
  return shown.size() >= kDecisive;
}

}  // namespace

std::optional<Relation> relation_of(const WrongRow& wrong, const std::vector<WrongRow>& beside) {
  const Numbers numbers(wrong);
  if (numbers.elements() == 0) return {};
  for (const Namer named : {not_finite, zero, last_bits, through_floating_point, other_ranks_value,
                            multiple, transposed, permuted, shifted, some_elements}) {
    const auto relation = named(numbers);
    if (relation &&
        std::all_of(beside.begin(), beside.end(),
                    [&](const WrongRow& other) { return holds_beside(named, *relation, other); }) &&
        is_decisive(*relation, numbers, beside))
      return relation;
  }
  return {};
}

}  // namespace lockstep
