// Findings and their tables as text: the one place in which their values become lines.
#pragma once

#include "harness/verdict/verdict.h"
#include "reports/style.h"

namespace lockstep::reports {

// One string a line, cells two blanks apart and columns as wide as their widest cell; the first
// column is aligned to the left, the last is left as it is, those between to the right. Lines may
// have fewer cells than the first. No line ends in a blank.
std::vector<std::string> in_columns(const std::vector<std::vector<std::string>>& lines);

bool has_headings(const Table& table);

// A table under its headings, behind `indent` blanks. Where the style's columns are too few it
// loses whole columns, marks where and names what is left out.
std::vector<std::string> lines_of(const Table& table, const Style& style = {}, size_t indent = 0);
std::vector<std::string> lines_of(const Details& details, const Style& style = {});

// The lines below a finding's diagnosis in a story: a sentence that comes first is a heading.
std::vector<std::string> shown_below(const Finding& finding, const Style& style = {});

// The diagnosis and the details.
std::string text_of(const Finding& finding);

}  // namespace lockstep::reports
