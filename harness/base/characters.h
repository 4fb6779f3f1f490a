// Escapes characters that a terminal acts on, or that machine-readable files, a line of text or a
// shell may not hold.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// `text` with the bytes of what is no character of UTF-8 and XML 1.0, a control character, one that
// turns the direction of text (U+202E) or one that is not seen (U+200B) spelled "\x1b"; line breaks
// and tabs stay.
std::string legible(std::string_view text);

// Also line breaks and tabs are spelled.
std::string one_line(std::string_view text);

// True for text that one_line() leaves as it is.
bool is_one_line(std::string_view text);

// `text` as one word of a POSIX shell, or, where it is not one line, of Bash: $'a\x0ab'. Always one
// line; unchanged where no shell would interpret it.
std::string shell_word(const std::string& text);

}  // namespace lockstep
