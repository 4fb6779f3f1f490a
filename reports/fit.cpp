#include "reports/fit.h"

#include "harness/core/columns.h"
#include "harness/core/text.h"

#include <algorithm>
#include <utility>

namespace lockstep::reports {

namespace {

constexpr size_t kGap = 2;  // blanks between two cells

using Letters = std::vector<std::string>;  // each takes one column of a terminal

Letters letters_of(const std::string& line) {
  Letters letters;
  for (const char byte : line) {
    const bool continues = (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
    if (continues && !letters.empty())
      letters.back() += byte;
    else
      letters.emplace_back(1, byte);
  }
  return letters;
}

size_t indent_of(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// After the indentation; at least one cell for a line that is not empty.
size_t cell_count(const std::string& line) {
  size_t cells = 1;
  for (size_t at = indent_of(line); (at = line.find("  ", at)) != std::string::npos; ++cells) {
    at = line.find_first_not_of(' ', at);
    if (at == std::string::npos) break;
  }
  return cells;
}

// A line of two cells is a label and its text.
bool may_be_of_table(const std::string& line) {
  return cell_count(line) > 2;
}

bool is_row_below(const std::string& line, const std::string& above) {
  return may_be_of_table(line) && indent_of(line) == indent_of(above);
}

// The columns of a table: separated by two blanks or more in all of its lines.
std::vector<std::vector<std::string>> cells_of(const std::vector<Letters>& lines, size_t indent) {
  size_t widest = 0;
  for (const auto& line : lines) widest = std::max(widest, line.size());
  const auto is_blank = [&](size_t column) {
    return std::all_of(lines.begin(), lines.end(), [&](const auto& line) {
      return column >= line.size() || line[column] == " ";
    });
  };
  std::vector<std::pair<size_t, size_t>> spans;  // begin and end
  for (size_t column = indent; column < widest; ++column) {
    if (is_blank(column)) continue;
    const bool goes_on = !spans.empty() && column < spans.back().second + kGap;
    if (goes_on)
      spans.back().second = column + 1;
    else
      spans.emplace_back(column, column + 1);
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& line : lines) {
    rows.emplace_back();
    for (const auto& [first, behind] : spans) {
      std::string cell;
      for (size_t column = first; column < std::min(behind, line.size()); ++column)
        cell += line[column];
      const auto begin = std::min(cell.find_first_not_of(' '), cell.size());
      rows.back().push_back(cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
    }
  }
  return rows;
}

size_t width_of(const std::vector<std::string>& lines) {
  size_t widest = 0;
  for (const auto& line : lines) widest = std::max(widest, width(line));
  return widest;
}

// The first `count` columns, a sign for the omitted ones, and the last column, which is a mark.
std::vector<std::string> with_columns(const std::vector<std::vector<std::string>>& rows,
                                      size_t count, const std::string& sign) {
  std::vector<std::vector<std::string>> kept;
  for (const auto& row : rows) {
    kept.emplace_back(row.begin(), row.begin() + static_cast<long>(count));
    kept.back().push_back(sign);
    kept.back().push_back(row.back());
  }
  return in_columns(kept);
}

std::string cut(const std::string& line, const std::string& sign, size_t columns) {
  if (width(line) <= columns) return line;
  const auto letters = letters_of(line);
  const size_t room = columns > width(sign) ? columns - width(sign) : 0;
  return joined(Letters(letters.begin(), letters.begin() + static_cast<long>(room)), "") + sign;
}

std::vector<std::string> fitted_table(const std::vector<std::string>& lines, const Style& style) {
  if (width_of(lines) <= style.columns) return lines;
  const size_t indent = indent_of(lines.front());
  std::vector<Letters> letters;
  for (const auto& line : lines) letters.push_back(letters_of(line));
  const auto rows = cells_of(letters, indent);
  const auto sign = shown("…", style);
  std::vector<std::string> table;
  for (size_t count = rows.front().size() - 1; count > 0; --count) {
    table = with_columns(rows, count, sign);
    if (indent + width_of(table) <= style.columns) break;
  }
  for (auto& line : table) line = cut(std::string(indent, ' ') + line, sign, style.columns);
  return table;
}

struct Manner {
  size_t begin = 0;    // of the first word that can be wrapped
  std::string prefix;  // of the lines below the first
  std::string end;     // of a line that continues below
};

// How a line continues: under its quotation, after its label, or indented.
Manner manner_of(const std::string& line, size_t columns) {
  const size_t indent = indent_of(line);
  const std::string blanks(indent, ' ');
  if (line.substr(indent).starts_with("| ")) return {indent + 2, blanks + "|   ", ""};
  const auto gap = line.find("  ", indent);
  const auto second = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  const bool is_command =
      line.substr(indent).starts_with("replay ") || line.substr(indent).starts_with("read ");
  const std::string end = is_command ? " \\" : "";
  if (second == std::string::npos || second > columns / 2) return {indent, blanks + "  ", end};
  return {second, std::string(second, ' '), end};
}

std::vector<std::string> wrapped(const std::string& line, size_t columns) {
  if (width(line) <= columns) return {line};
  const auto manner = manner_of(line, columns);
  std::vector<std::string> lines{line.substr(0, manner.begin)};
  bool is_begun = false;
  for (const auto& word : split(line.substr(manner.begin), ' ')) {
    const size_t wanted = width(lines.back()) + 1 + width(word) + width(manner.end);
    if (is_begun && wanted > columns) {
      lines.back().erase(lines.back().find_last_not_of(' ') + 1);
      lines.back() += manner.end;
      lines.push_back(manner.prefix + word);
    } else {
      lines.back() += (is_begun ? " " : "") + word;
    }
    is_begun = true;
  }
  return lines;
}

}  // namespace

std::vector<std::string> fitted(const std::vector<std::string>& lines, const Style& style) {
  if (style.columns == 0) return lines;
  std::vector<std::string> out;
  const auto append = [&](const std::vector<std::string>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  for (auto line = lines.begin(); line != lines.end();) {
    auto behind = line + 1;
    while (behind != lines.end() && may_be_of_table(*line) && is_row_below(*behind, *line))
      ++behind;
    if (behind - line > 1)
      append(fitted_table({line, behind}, style));
    else
      append(wrapped(*line, style.columns));
    line = behind;
  }
  return out;
}

std::string fitted_row(const std::string& line, const Style& style) {
  if (style.columns == 0) return line;
  std::string out = line;
  while (width(out) > style.columns && cell_count(out) > 1) {
    out.erase(out.rfind("  "));
    out.erase(out.find_last_not_of(' ') + 1);
  }
  return cut(out, shown("…", style), style.columns);
}

}  // namespace lockstep::reports
