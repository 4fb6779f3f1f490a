// The characters of a text, which may not be UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

struct Character {
  size_t size = 0;  // in bytes; 0 where the text does not begin with one of UTF-8
  uint32_t code = 0;
};

Character first_character(std::string_view text);  // which is not empty

}  // namespace lockstep
