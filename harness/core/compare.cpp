#include "harness/core/compare.h"

#include "harness/core/text.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

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

bool is_whole(const std::string& dtype) {
  return dtype.find("float") == std::string::npos;
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value == 0 ? 0.0 : value);  // no "-0"
  return text;
}

std::string index_text(const TensorValue& value, size_t flat) {
  std::vector<std::string> index(value.shape.size());
  for (size_t d = value.shape.size(); d-- > 0;) {
    const auto size = static_cast<size_t>(std::max<int64_t>(1, value.shape[d]));
    index[d] = std::to_string(flat % size);
    flat /= size;
  }
  return index.empty() ? "" : "[" + joined(index, ", ") + "]";
}

// The first element at which the values are not close; 0 where dtype or shape differ.
size_t first_difference(const TensorValue& seen, const TensorValue& wanted,
                        const TensorValue* bound) {
  if (seen.dtype != wanted.dtype || seen.shape != wanted.shape) return 0;
  if (is_whole(seen.dtype)) {
    const auto a = as_integers(seen), b = as_integers(wanted);
    return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                               a.begin());
  }
  const auto a = as_doubles(seen), b = as_doubles(wanted);
  const auto allowed = bound ? as_doubles(*bound) : std::vector<double>(a.size(), 0.0);
  size_t at = 0;
  const auto differs = [&] {
    if (std::isnan(a[at]) || std::isnan(b[at])) return std::isnan(a[at]) != std::isnan(b[at]);
    return a[at] != b[at] && !(std::abs(a[at] - b[at]) <= allowed[at]);
  };
  while (at < std::min(a.size(), b.size()) && !differs()) ++at;
  return at;
}

std::string element(const TensorValue& value, size_t flat) {
  if (is_whole(value.dtype)) {
    const auto all = as_integers(value);
    return flat < all.size() ? std::to_string(all[flat]) : "nothing";
  }
  const auto all = as_doubles(value);
  return flat < all.size() ? number(all[flat]) : "nothing";
}

std::string distance(const TensorValue& seen, const TensorValue& wanted, size_t flat) {
  if (is_whole(seen.dtype) || seen.dtype != wanted.dtype || seen.shape != wanted.shape) return "";
  const auto a = as_doubles(seen), b = as_doubles(wanted);
  if (flat >= a.size() || flat >= b.size() || a[flat] == b[flat]) return "";
  return "  (" + with_commas(ulp_distance(a[flat], b[flat], seen.dtype)) + " ULP)";
}

// One line a rank at the first place where any differs.
std::string table(const Row& row, const std::vector<TensorValue>& wanted, size_t flat) {
  std::string text;
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    const auto& seen = row.by_rank[rank];
    text += "\nrank " + std::to_string(rank) + "  " + element(seen, flat) + "  reference " +
            element(wanted[rank], flat) + distance(seen, wanted[rank], flat);
  }
  return text;
}

}  // namespace

int64_t ulp_distance(double a, double b, const std::string& dtype) {
  if (a == b) return 0;
  if (dtype == "float32") return ulps<float, uint32_t>(a, b);
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

const TensorValue* bound_of(const Difference& is, size_t rank) {
  return is.bounds.empty() ? nullptr : &is.bounds[rank];
}

std::string place(const Row& row, size_t flat, const TensorValue& value) {
  return "step " + std::to_string(row.at.step) + ", " + row.at.phase + ", " + row.name +
         index_text(value, flat);
}

}  // namespace

Findings equal(const std::string& rule, const std::vector<Comparison>& rows) {
  for (const auto& one : rows) {
    const Difference is{
        one.row, for_each_rank(one.expected, one.row, "expected values"),
        one.bounds.empty() ? one.bounds : for_each_rank(one.bounds, one.row, "bounds")};
    for (size_t rank = 0; rank < is.expected.size(); ++rank) {
      if (close(is.row.by_rank[rank], is.expected[rank], bound_of(is, rank))) continue;
      const size_t at =
          first_difference(is.row.by_rank[rank], is.expected[rank], bound_of(is, rank));
      const auto diagnosis = diagnose(is, one.explanations ? one.explanations() : Explanations{});
      const auto where = place(is.row, at, is.expected[rank]);
      return {{rule, diagnosis.pattern, where,
               is.row.name + ": " + diagnosis.text + "\nfirst divergence: " + where +
                   table(is.row, is.expected, at)}};
    }
  }
  return {};
}

Findings alike(const std::string& rule, const std::vector<Row>& rows) {
  std::vector<Comparison> all;
  for (const auto& row : rows) all.push_back({.row = row, .expected = {row.by_rank.front()}});
  return equal(rule, all);
}

}  // namespace lockstep
