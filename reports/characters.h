// Escapes characters that machine-readable files, a line of text or a shell may not hold.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::reports {

// `text` with each byte that is not part of a legal UTF-8 and XML 1.0 character spelled "\x1b";
// line breaks and tabs stay.
std::string legible(std::string_view text);

// True for text without line breaks, tabs and other control characters.
bool is_one_line(std::string_view text);

// `text` with each control character spelled "\x0a".
std::string one_line(std::string_view text);

// `text` as one word of a POSIX shell, or, where it holds a control character or a byte that is not
// UTF-8, of Bash: $'a\x0ab'. Always one line; unchanged where no shell would interpret it.
std::string shell_word(const std::string& text);

}  // namespace lockstep::reports
