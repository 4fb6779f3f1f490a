// Fits lines to a terminal's width.
#pragma once

#include "reports/style.h"

#include <string>
#include <vector>

namespace lockstep::reports {

// `lines`, none wider than `style.columns`, except for a single wider word, such as a path, which
// stays whole so that it can be copied. Sentences are broken between words and indented, JSON
// behind commas; commands are continued with a backslash. Tables are fitted where they are laid
// out: findings/text.h.
std::vector<std::string> fitted(const std::vector<std::string>& lines, const Style& style);

void append(std::vector<std::string>& lines, const std::vector<std::string>& more);

// `line`, or as much of its beginning as fits, with the sign.
std::string cut(const std::string& line, const std::string& sign, size_t columns);

// One line of cells separated by two blanks: it loses its last cells.
std::string fitted_row(const std::string& line, const Style& style);

}  // namespace lockstep::reports
