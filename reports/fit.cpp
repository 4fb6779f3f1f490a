#include "reports/fit.h"

#include "harness/base/text.h"
#include "harness/verdict/columns.h"

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

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
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
  const auto first = [](const std::string& text, size_t count) {
    const auto letters = letters_of(text);
    return joined(Letters(letters.begin(), letters.begin() + static_cast<long>(count)), "");
  };
  if (columns <= width(sign)) return first(sign, columns);
  return first(line, columns - width(sign)) + sign;
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

// A word of a line, and whether a blank is before it.
struct Word {
  std::string text;
  bool has_blank = true;
};

// JSON may be broken behind any comma outside of its strings.
std::vector<Word> words_of(const std::string& text, size_t columns) {
  std::vector<Word> words;
  for (const auto& word : split(text, ' ')) {
    words.push_back({word});
    if (!word.starts_with('{') || width(word) <= columns) continue;
    words.back().text.clear();
    bool is_in_string = false;
    for (size_t at = 0; at < word.size(); ++at) {
      words.back().text += word[at];
      if (word[at] == '"') is_in_string = !is_in_string;
      if (is_in_string && word[at] == '\\' && at + 1 < word.size()) words.back().text += word[++at];
      if (!is_in_string && word[at] == ',') words.push_back({"", false});
    }
  }
  return words;
}

std::vector<std::string> wrapped(const std::string& line, size_t columns) {
  if (width(line) <= columns) return {line};
  const auto manner = manner_of(line, columns);
  const std::string least(indent_of(line) + 2, ' ');
  std::vector<std::string> lines{line.substr(0, manner.begin)};
  bool is_begun = false;
  for (const auto& [word, has_blank] : words_of(line.substr(manner.begin), columns)) {
    const std::string blank = is_begun && has_blank ? " " : "";
    const size_t wanted = width(lines.back()) + width(blank + word) + width(manner.end);
    if (is_begun && wanted > columns) {
      lines.back().erase(lines.back().find_last_not_of(' ') + 1);
      lines.back() += manner.end;
      const bool is_label = manner.end.empty() && manner.prefix.size() > least.size() &&
                            manner.prefix.find_first_not_of(' ') == std::string::npos;
      const bool fits_below =
          width(manner.prefix + word) > columns && width(least + word) <= columns;
      lines.push_back((is_label && fits_below ? least : manner.prefix) + word);
    } else {
      lines.back() += blank + word;
    }
    is_begun = true;
  }
  return lines;
}

// "2 columns left out: ratio, ranks agree", from the table's first row; the last column is a mark.
std::string left_out_text(const std::vector<std::string>& header, size_t kept) {
  const std::vector<std::string> names(header.begin() + static_cast<long>(kept), header.end() - 1);
  return std::to_string(names.size()) + (names.size() == 1 ? " column" : " columns") +
         " left out: " + joined(names, ", ");
}

std::vector<std::string> fitted_table(const std::vector<std::string>& lines, const Style& style) {
  if (width_of(lines) <= style.columns) return lines;
  const size_t indent = indent_of(lines.front());
  std::vector<Letters> letters;
  for (const auto& line : lines) letters.push_back(letters_of(line));
  const auto rows = cells_of(letters, indent);
  const size_t column_count = rows.front().size();
  std::vector<std::string> table;
  if (column_count < 3) {
    for (const auto& line : lines) append(table, wrapped(line, style.columns));
    return table;
  }
  const auto sign = shown("…", style);
  const std::string blanks(indent, ' ');
  size_t kept = column_count - 1;
  do {
    table = with_columns(rows, --kept, sign);
  } while (kept > 1 && indent + width_of(table) > style.columns);
  for (auto& line : table) line = cut(blanks + line, sign, style.columns);
  append(table, wrapped(blanks + sign + " " + left_out_text(rows.front(), kept), style.columns));
  return table;
}

}  // namespace

std::vector<std::string> fitted(const std::vector<std::string>& lines, const Style& style) {
  if (style.columns == 0) return lines;
  std::vector<std::string> out;
  for (auto line = lines.begin(); line != lines.end();) {
    auto behind = line + 1;
    while (behind != lines.end() && may_be_of_table(*line) && is_row_below(*behind, *line))
      ++behind;
    if (behind - line > 1)
      append(out, fitted_table({line, behind}, style));
    else
      append(out, wrapped(*line, style.columns));
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
