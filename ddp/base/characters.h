#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

// The characters of texts that others chose: names in a file, paths. Everything is Local.

// The number of bytes of the character at `place` in UTF-8; 0: there is none.
std::size_t length_of_character(const std::string& text, std::size_t place);

// One line that a terminal shows as it is: the bytes of control characters, of line breaks, of what
// turns the direction of text, and those that are not UTF-8 are spelled "\x1b".
std::string printable(const std::string& text);

}  // namespace lockstep
