// Fits lines to a terminal's width.
#pragma once

#include "reports/style.h"

#include <string>
#include <vector>

namespace lockstep::reports {

// `lines`, none wider than `style.columns`, except for a single wider word, such as a path, which
// stays whole so that it can be copied. Sentences are broken between words and indented, JSON
// behind commas; commands are continued with a backslash; tables lose whole columns, mark where and
// name what is left out.
std::vector<std::string> fitted(const std::vector<std::string>& lines, const Style& style);

// One line of cells separated by two blanks: it loses its last cells.
std::string fitted_row(const std::string& line, const Style& style);

}  // namespace lockstep::reports
