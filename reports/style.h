// How text is laid out for a person: columns, colour, and the same text without Unicode.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::reports {

struct Style {
  bool colour = false;  // ANSI escapes
  bool unicode = true;  // where false, `shown` leaves ASCII only
  size_t columns = 0;   // of the terminal; 0: no terminal, and lines are not broken

  // Returns the terminal's, or as many as a picture may take on paper.
  size_t columns_or(size_t of_paper) const { return columns == 0 ? of_paper : columns; }
};

enum class Colour { green, red, yellow, blue, magenta, cyan, bold };

std::string coloured(const std::string& text, Colour colour, const Style& style);

// `text` as the style can show it: without Unicode, "x ... - <-" for ✗ … – ◄, and '?' for
// characters without such a replacement. Control characters that would move a terminal's cursor are
// spelled out, as "\x1b".
std::string shown(const std::string& text, const Style& style);

// Columns on a terminal: code points, without colour escapes.
size_t width(std::string_view text);
std::string padded(const std::string& text, size_t columns);
std::string right_aligned(const std::string& text, size_t columns);

std::string seconds(std::chrono::milliseconds time);  // "2.9"
std::string seed_text(uint64_t seed);                 // "0x5eed42"

}  // namespace lockstep::reports
