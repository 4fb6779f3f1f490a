#include "reports/findings/text.h"

#include "harness/base/text.h"
#include "reports/fit.h"

#include <algorithm>
#include <iterator>

namespace lockstep::reports {

namespace {

using Cells = std::vector<std::string>;

// Behind the cells of a row: its mark, or what is remarked of it.
std::string behind(const Table::Row& row) {
  if (row.mark == Table::Mark::first) return "◄";
  return row.mark == Table::Mark::wrong ? "✗" : row.remark;
}

// The rows below the headings, where there are any, as the style shows them.
std::vector<Cells> cells_of(const Table& table, const Style& style) {
  std::vector<Cells> rows(1);
  for (const auto& column : table.columns) rows[0].push_back(column.heading);
  rows[0].push_back(table.heading_of_remarks);
  if (!has_headings(table)) rows.clear();
  for (const auto& row : table.rows) {
    auto& cells = rows.emplace_back();
    for (const auto& cell : row.cells) cells.push_back(cell.text);
    cells.push_back(behind(row));
  }
  if (!style.unicode)
    for (auto& cells : rows)
      for (auto& cell : cells) cell = shown(cell, style);
  return rows;
}

size_t width_of(const std::vector<std::string>& lines) {
  size_t widest = 0;
  for (const auto& line : lines) widest = std::max(widest, width(line));
  return widest;
}

// True if the ranks that hold what this one does are fewer than half of them, in some row.
bool is_unlike_most(const Table& table, size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const Table::Row& row) {
    size_t ranks = 0, alike = 0;
    for (size_t other = 0; other < std::min(table.columns.size(), row.cells.size()); ++other)
      if (table.columns[other].rank >= 0) {
        ++ranks;
        alike += column < row.cells.size() && row.cells[other].text == row.cells[column].text;
      }
    return 2 * alike < ranks;
  });
}

// The columns in the order in which a narrow terminal loses them, the ranks' last, of these one
// that is unlike most, and that of the names never: what a rank holds is the finding, and all else
// is said about it.
std::vector<size_t> as_they_go(const Table& table) {
  const auto importance = [&](size_t column) {
    const auto& is = table.columns[column];
    if (is.rank >= 0) return is_unlike_most(table, column) ? 3 : 2;
    return is.holds == Table::Holds::measure ? 0 : 1;
  };
  std::vector<size_t> out;
  for (size_t column = table.columns.size(); column-- > 1;) out.push_back(column);
  std::stable_sort(out.begin(), out.end(),
                   [&](size_t a, size_t b) { return importance(a) < importance(b); });
  return out;
}

// The cells without those of some columns, with a sign for them before what is behind the rows.
std::vector<std::string> without(const std::vector<Cells>& rows, const std::vector<size_t>& columns,
                                 const std::string& sign) {
  std::vector<Cells> kept;
  for (const auto& row : rows) {
    auto& cells = kept.emplace_back();
    for (size_t column = 0; column + 1 < row.size(); ++column)
      if (std::find(columns.begin(), columns.end(), column) == columns.end())
        cells.push_back(row[column]);
    cells.insert(cells.end(), {sign, row.back()});
  }
  return in_columns(kept);
}

// "2 columns left out: ratio, ranks agree", from the headings.
std::string left_out_text(const Cells& headings, std::vector<size_t> columns) {
  std::sort(columns.begin(), columns.end());
  Cells names;
  for (const auto column : columns) names.push_back(headings[column]);
  return counted(names.size(), "column") + " left out: " + joined(names, ", ");
}

}  // namespace

bool has_headings(const Table& table) {
  return std::any_of(table.columns.begin(), table.columns.end(),
                     [](const auto& column) { return !column.heading.empty(); });
}

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

// The cells without what stands in brackets at their ends: "allreduce of 1 float32" of "... (bucket
// 0 of 6: w)".
std::vector<Cells> without_brackets(std::vector<Cells> rows) {
  for (auto& row : rows)
    for (auto& cell : row)
      if (const auto at = cell.find(" ("); cell.ends_with(')') && at != std::string::npos)
        cell.erase(at);
  return rows;
}

std::vector<std::string> lines_of(const Table& table, const Style& style, size_t indent) {
  auto rows = cells_of(table, style);
  auto lines = in_columns(rows);
  const auto sign = shown("…", style);
  const auto order = as_they_go(table);
  std::vector<size_t> lost;
  const auto is_too_wide = [&] {
    return style.columns > 0 && indent + width_of(lines) > style.columns;
  };
  bool has_brackets = true;
  while (lost.size() < order.size() && is_too_wide()) {
    const auto next = order[lost.size()];
    if (table.columns[next].rank >= 0 && std::exchange(has_brackets, false))
      rows = without_brackets(std::move(rows));
    else
      lost.push_back(next);
    lines = lost.empty() ? in_columns(rows) : without(rows, lost, sign);
  }
  const bool is_whole = lost.empty();
  if (!is_whole) lines.push_back(sign + " " + left_out_text(rows.front(), lost));
  for (auto& line : lines) {
    line.insert(0, indent, ' ');
    if (!is_whole && &line != &lines.back()) line = cut(line, sign, style.columns);
  }
  return lines;
}

std::string sentence_of(const std::variant<std::string, Cause, Table>& detail) {
  const auto* cause = std::get_if<Cause>(&detail);
  return cause ? "cause: " + cause->text : std::get<std::string>(detail);
}

std::vector<std::string> lines_of(const Details& details, const Style& style) {
  std::vector<std::string> lines;
  for (const auto& detail : details)
    if (const auto* table = std::get_if<Table>(&detail))
      append(lines, lines_of(*table, style));
    else
      lines.push_back(sentence_of(detail));
  return lines;
}

std::vector<std::string> shown_below(const Finding& finding, const Style& style) {
  constexpr size_t kIndent = 4;
  std::vector<std::string> lines;
  bool is_below_a_table = false;  // where a sentence is a note on it
  for (const auto& detail : finding.details)
    if (const auto* table = std::get_if<Table>(&detail)) {
      append(lines, lines_of(*table, style, kIndent));
      is_below_a_table = true;
    } else {
      const auto sentence = sentence_of(detail);
      if (sentence.ends_with(':')) is_below_a_table = false;  // the heading of what is below it
      lines.push_back((is_below_a_table ? "    " : "  ") + sentence);
    }
  return lines;
}

std::string text_of(const Finding& finding) {
  auto lines = lines_of(finding.details);
  lines.insert(lines.begin(), finding.diagnosis);
  return joined(lines, "\n");
}

}  // namespace lockstep::reports
