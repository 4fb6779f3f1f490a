// JSON of a program that does not mind what its names hold.
#pragma once

#include "harness/base/json.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// JSON, or what would be, with its texts' bytes that are no UTF-8 and halves of surrogate pairs
// spelled: the text "\xff", and "\ud800".
std::string with_characters_spelled(std::string_view json);

// The value with all its names and texts made one line; takes the number of its parts off
// `values_left`.
Json in_lines(Json value, int64_t& values_left);

}  // namespace lockstep
