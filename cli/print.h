// Text for a person on stdout or stderr: everything that may have come from a file or a name goes
// through here. On a terminal no line is wider than it, except for a single wider word; characters
// that are not legible() are spelled, and so are commands to GitHub.
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

// Text whose parts are shown() already, and may be coloured, as it is but for commands to GitHub.
void print_shown(const std::string& text);
void print_progress(const std::string& text);  // on stderr

// From here on all text goes to stderr, since stdout is for what a program reads; so a step of
// GitHub Actions has no annotations.
void print_text_to_stderr();
bool text_is_on_stderr();
// On stdout, as it is.
void print_for_programs(const std::string& text);

}  // namespace lockstep::cli
