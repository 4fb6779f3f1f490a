#include "harness/verdict/columns.h"

#include <algorithm>

namespace lockstep {

namespace {

// Code points: the columns of a terminal, for the scripts that names are written in.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::vector<std::string> in_columns(const std::vector<std::vector<std::string>>& lines) {
  const size_t columns = lines.empty() ? 0 : lines.front().size();
  std::vector<size_t> widest(columns, 0);
  for (const auto& line : lines)
    for (size_t column = 0; column < std::min(columns, line.size()); ++column)
      widest[column] = std::max(widest[column], width(line[column]));
  std::vector<std::string> out;
  for (const auto& line : lines) {
    std::string text;
    for (size_t column = 0; column < std::min(columns, line.size()); ++column) {
      const std::string fill(widest[column] - width(line[column]), ' ');
      text += column == 0 ? "" : "  ";
      text += column == 0 || column + 1 == columns ? line[column] + fill : fill + line[column];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace lockstep
