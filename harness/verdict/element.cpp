#include "harness/verdict/element.h"

#include "harness/base/dtype.h"
#include "harness/base/text.h"
#include "harness/verdict/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace lockstep {

bool is_whole(const std::string& dtype) {
  return traits_of(dtype).kind != NumberKind::floating;
}

namespace {

// A value of that one element; without bytes where there is none. A table shows few of many.
TensorValue alone(const TensorValue& value, size_t flat) {
  size_t elements = 1;
  for (const auto size : value.shape) elements *= static_cast<size_t>(std::max<int64_t>(0, size));
  TensorValue one{value.dtype, {1}, {}};
  if (flat >= elements) return one;
  const size_t bytes = value.bytes.size() / elements;
  const auto begin = value.bytes.begin() + static_cast<std::ptrdiff_t>(flat * bytes);
  one.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  return one;
}

}  // namespace

bool same_shape(const TensorValue& a, const TensorValue& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

bool comparable(const TensorValue& a, const TensorValue& b) {
  return same_shape(a, b) && a.bytes.size() == b.bytes.size();
}

bool is_no_gradient(const TensorValue& value) {
  const auto kind = traits_of(value.dtype).kind;
  const bool may_learn = kind == NumberKind::floating || kind == NumberKind::complex;
  return may_learn && value.shape == std::vector<int64_t>{0};
}

std::string shape_or_none(const TensorValue& value) {
  return is_no_gradient(value) ? "none" : shape_text(value);
}

std::string number(double value, int digits) {
  char text[40];
  const bool has_sign = value != 0 && !std::isnan(value);  // no "-0", no "-nan"
  std::snprintf(text, sizeof(text), "%.*g", digits, has_sign ? value : std::abs(value));
  return text;
}

std::vector<int64_t> index_of(const TensorValue& value, size_t flat) {
  std::vector<int64_t> index(value.shape.size());
  for (size_t d = value.shape.size(); d-- > 0;) {
    const auto size = static_cast<size_t>(std::max<int64_t>(1, value.shape[d]));
    index[d] = static_cast<int64_t>(flat % size);
    flat /= size;
  }
  return index;
}

std::string index_text(const std::vector<int64_t>& index) {
  std::vector<std::string> texts;
  for (const auto at : index) texts.push_back(std::to_string(at));
  return texts.empty() ? "" : "[" + joined(texts, ", ") + "]";
}

size_t first_difference(const TensorValue& seen, const TensorValue& wanted,
                        const TensorValue* bound) {
  if (!same_shape(seen, wanted)) return 0;
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

Element element(const TensorValue& value, size_t flat, int digits) {
  const auto one = alone(value, flat);
  if (is_whole(value.dtype)) {
    const auto whole = as_integers(one);
    if (whole.empty()) return {};
    if (value.dtype == "bool")
      return {whole.front() ? "true" : "false", static_cast<double>(whole.front())};
    return {std::to_string(whole.front()), static_cast<double>(whole.front())};
  }
  const auto real = as_doubles(one);
  if (real.empty()) return {};
  return {number(real.front(), digits), real.front()};
}

// Nine digits distinguish any two float32 values; float64 gets more where nine do not suffice.
int digits_for(const std::vector<const TensorValue*>& values, size_t flat) {
  for (const auto* a : values)
    for (const auto* b : values) {
      const auto x = element(*a, flat, 9), y = element(*b, flat, 9);
      if (x.value != y.value && x.text == y.text) return 17;
    }
  return 9;
}

Element ratio(const Element& seen, const Element& wanted) {
  if (!seen.value || !wanted.value || *wanted.value == 0) return {};
  const double ratio = *seen.value / *wanted.value;
  if (!std::isfinite(ratio)) return {};
  // Doubles cannot represent the difference, so the ratio would claim that there is none.
  if (seen.text != wanted.text && std::abs(*wanted.value) >= 0x1p53 && std::abs(ratio - 1) < 1e-3)
    return {};
  char text[40];
  const bool plain = ratio == 0 || (std::abs(ratio) >= 1e-3 && std::abs(ratio) < 1e4);
  std::snprintf(text, sizeof(text), plain ? "%.3f" : "%.3g",
                ratio == 0 ? 0.0 : ratio);  // no "-0.000"
  return {text, ratio};
}

Element ulps_between(const Element& seen, const Element& wanted, const TensorValue& of) {
  if (!seen.value || !wanted.value || is_whole(of.dtype)) return {};
  if (!std::isfinite(*seen.value) || !std::isfinite(*wanted.value)) return {};
  // The count of all numbers between a number and zero, or beyond it, means nothing.
  const auto sign = [](double value) { return (value > 0) - (value < 0); };
  if (sign(*seen.value) != sign(*wanted.value)) return {};
  // Neither does a count of millions, where the ratio shows the difference.
  if (const auto shown = ratio(seen, wanted).text; shown != "" && shown != "1.000") return {};
  const auto ulps = ulp_distance(*seen.value, *wanted.value, of.dtype);
  const auto far = int64_t{1} << 30;
  return {ulps > far ? "> 2^30" : with_commas(ulps), static_cast<double>(ulps)};
}

double distance(const Element& seen, const Element& wanted) {
  if (!seen.value || !wanted.value || *seen.value == *wanted.value) return 0;
  const double apart = std::abs(*seen.value - *wanted.value);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

}  // namespace lockstep
