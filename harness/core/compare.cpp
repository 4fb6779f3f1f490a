#include "harness/core/compare.h"

#include "harness/core/text.h"

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

bool close(double a, double b, double bound) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= bound;
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

// The first element at which the values differ; none where they do not.
std::optional<size_t> first_difference(const TensorValue& seen, const TensorValue& wanted,
                                       double bound) {
  if (seen == wanted) return {};
  if (seen.dtype != wanted.dtype || seen.shape != wanted.shape) return 0;
  if (is_whole(seen.dtype)) {
    const auto a = as_integers(seen), b = as_integers(wanted);
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) return i;
    return a.size() == b.size() ? std::optional<size_t>{} : 0;
  }
  const auto a = as_doubles(seen), b = as_doubles(wanted);
  if (a.size() != b.size()) return 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (!close(a[i], b[i], bound)) return i;
  return {};
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

Findings equal(const Row& row, const Expected& expected) {
  auto wanted = expected.by_rank;
  if (wanted.size() == 1) wanted.assign(row.by_rank.size(), TensorValue(wanted.front()));
  if (wanted.size() != row.by_rank.size())
    throw std::invalid_argument("equal: " + std::to_string(wanted.size()) +
                                " expected values for " + std::to_string(row.by_rank.size()) +
                                " ranks");
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    const auto at = first_difference(row.by_rank[rank], wanted[rank], expected.bound);
    if (!at) continue;
    const auto diagnosis =
        diagnose(row, wanted, expected.explanations ? expected.explanations() : Explanations{});
    const std::string where = "step " + std::to_string(row.at.step) + ", " + row.at.phase + ", " +
                              row.name + index_text(wanted[rank], *at);
    return {{expected.rule, diagnosis.pattern, where,
             row.name + ": " + diagnosis.text + "\nfirst divergence: " + where +
                 table(row, wanted, *at)}};
  }
  return {};
}

}  // namespace lockstep
