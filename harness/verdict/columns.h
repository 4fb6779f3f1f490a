// Text in columns, for people.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// One string a line, cells two blanks apart and columns as wide as their widest cell; the first
// column is aligned to the left, the last is left as it is, those between to the right. Lines may
// have fewer cells than the first. No line ends in a blank.
std::vector<std::string> in_columns(const std::vector<std::vector<std::string>>& lines);

}  // namespace lockstep
