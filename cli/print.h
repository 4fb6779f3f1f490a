// Text for a person on stdout or stderr. On a terminal no line is wider than it, except for a
// single wider word; control characters that a file or a name brought are spelled out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::cli {

inline constexpr size_t kColumnsOfPaper = 80;  // of a picture, where stdout is no terminal

// On stdout; nowhere wider than `columns_most`, unless that is 0.
void print(const std::string& text, size_t columns_most = 0);
void print_to_stderr(const std::string& sentence);  // "lockstep: ..."
void print_help_to_stderr(const std::string& help);

}  // namespace lockstep::cli
