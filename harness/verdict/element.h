// One element of a value, and how far it is from another, as text for a table.
#pragma once

#include "harness/history/history.h"

namespace lockstep {

// The text where there is nothing to show.
inline constexpr char kNothing[] = "–";

struct Element {
  std::string text = kNothing;
  std::optional<double> value = {};  // none where the value has no such element
};

bool is_whole(const std::string& dtype);  // of whole numbers or truth values

bool same_shape(const TensorValue& a, const TensorValue& b);  // and dtype

// And with as many bytes; a truncated value has fewer.
bool comparable(const TensorValue& a, const TensorValue& b);

// True of a gradient that autograd left undefined: ranks record it as no element of its dtype.
bool is_no_gradient(const TensorValue& value);

// "float32[2, 3]", or "none" for no gradient.
std::string shape_or_none(const TensorValue& value);

// The index of an element, in a value's dimensions, by its row-major number.
std::vector<int64_t> index_of(const TensorValue& value, size_t flat);

// "[1, 0]"; nothing for a value without dimensions.
std::string index_text(const std::vector<int64_t>& index);

// The first element that is not as close as `bound` allows, or the count of elements; 0 where dtype
// or shape differ. A null bound allows no distance.
size_t first_difference(const TensorValue& seen, const TensorValue& wanted,
                        const TensorValue* bound);

// `digits` is the number of significant digits.
std::string number(double value, int digits);
Element element(const TensorValue& value, size_t flat, int digits);

// Digits enough to distinguish different elements: nine do for float32.
int digits_for(const std::vector<const TensorValue*>& values, size_t flat);

double distance(const Element& seen, const Element& wanted);  // infinite where one alone is NaN
Element ratio(const Element& seen, const Element& wanted);
Element ulps_between(const Element& seen, const Element& wanted, const TensorValue& of);

}  // namespace lockstep
