// The only parser for JSON that another program may have written. It takes time and memory in
// proportion to the text, and no nesting can exhaust the stack of code that walks over the value.
#pragma once

#include "harness/base/fields.h"

namespace lockstep {

inline constexpr size_t kJsonLevelsMost = 100;
// A value takes up to a hundred bytes where its text takes three. Our own files have thousands.
inline constexpr size_t kJsonValuesMost = 2'000'000;

// The text is not JSON.
struct NotJson : FieldError {
  using FieldError::FieldError;
};

// Fields keep their order. Throws NotJson, or FieldError for a text that is nested more than
// `kJsonLevelsMost` levels deep, has more than `kJsonValuesMost` values or has a field twice in one
// object. `name`, for example of a file, begins the sentence.
Json parse_json(const std::string& text, const std::string& name);

}  // namespace lockstep
