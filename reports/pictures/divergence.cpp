// The table of a finding as a picture: what divergence.h of core wrote, read back from a finding,
// so that a stored run has it too.
#include "harness/base/text.h"
#include "reports/pictures/aggregate.h"
#include "reports/pictures/observed.h"
#include "reports/style.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lockstep::reports {

namespace {

using Cells = std::vector<std::string>;

// The cells of a line: two blanks and more are between them.
Cells cells_of(const std::string& line) {
  Cells cells;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(' ', at);
    if (begin == std::string::npos) break;
    const size_t end = std::min(line.find("  ", begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return cells;
}

struct Column {
  size_t place;
  Label label;
};

// The columns with values: the reference's and the ranks'.
std::vector<Column> columns_of(const Cells& header) {
  std::vector<Column> columns;
  for (size_t place = 1; place < header.size(); ++place) {
    if (header[place] == "reference") columns.push_back({place, {"reference", kReference}});
    if (!header[place].starts_with("rank ")) continue;
    if (const auto rank = parsed_int(header[place].substr(5)))
      columns.push_back({place, rank_label(static_cast<int>(*rank))});
  }
  return columns;
}

std::optional<double> number_in(const std::string& text) {
  std::string digits = text;
  std::erase(digits, ',');
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  const bool is_all = !digits.empty() && end == digits.c_str() + digits.size();
  return is_all && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

struct Table {
  std::vector<Column> columns;
  std::vector<Cells> rows;
};

std::optional<Table> table_of(const Finding& finding) {
  Table table;
  size_t least = 0;
  for (const auto& line : split(finding.text, '\n')) {
    const auto cells = cells_of(line);
    if (table.columns.empty()) {
      if (cells.size() > 2 && cells.front() == "name") {
        table.columns = columns_of(cells);
        least = cells.size();
      }
      continue;
    }
    if (cells.size() < least) break;  // what follows the table
    table.rows.push_back(cells);
  }
  if (table.columns.size() < 2 || table.rows.empty()) return {};
  return table;
}

// A value is marked in the lines that are wrong, where it is not that of the first column.
Mark mark_of(const Table& table, const Cells& row, const Column& column) {
  const bool is_wrong_row = row.back() == "◄" || row.back() == "✗";
  return is_wrong_row && row[column.place] != row[table.columns.front().place] ? Mark::wrong
                                                                               : Mark::plain;
}

Bars bars_of(const Table& table) {
  Bars bars{.value_axis = "value", .groups = {}};
  for (const auto& row : table.rows) {
    auto& group = bars.groups.emplace_back(Bars::Group{row.front(), {}});
    for (const auto& column : table.columns)
      group.bars.push_back({column.label, number_in(row[column.place]).value_or(0),
                            row[column.place], mark_of(table, row, column)});
  }
  return bars;
}

Grid grid_of(const Table& table) {
  Grid grid{.column_axis = "record", .columns = {{"", {}}}, .rows = {}};
  for (const auto& row : table.rows) grid.columns[0].names.push_back(row.front());
  for (const auto& column : table.columns) {
    auto& line = grid.rows.emplace_back(Grid::Row{column.label, {}});
    for (const auto& row : table.rows)
      line.cells.push_back({row[column.place], mark_of(table, row, column)});
  }
  return grid;
}

// The picture of a finding with a line for each rank: "rank 0  0.25  reference 0.125  (distance
// ...)".
std::optional<Picture> rank_lines_picture(const Finding& finding) {
  constexpr std::string_view kReferenceWord = "reference ";
  Bars bars{.value_axis = finding.where, .groups = {}};
  for (const auto& line : split(finding.text, '\n')) {
    const auto cells = cells_of(line);
    if (cells.size() < 3 || !cells[0].starts_with("rank ") || !cells[2].starts_with(kReferenceWord))
      continue;
    const auto rank = parsed_int(cells[0].substr(5));
    const auto right = cells[2].substr(kReferenceWord.size());
    const auto held = number_in(cells[1]), wanted = number_in(right);
    if (!rank || !held || !wanted) return {};
    const auto label = rank_label(static_cast<int>(*rank));
    bars.groups.push_back(
        {label.text,
         {{{"reference", kReference}, *wanted, right},
          {label, *held, cells[1], cells[1] == right ? Mark::plain : Mark::wrong}}});
  }
  if (bars.groups.empty()) return {};
  return within_marks({.title = "Where the ranks and the reference part",
                       .caption = split(finding.text, '\n').front(),
                       .body = std::move(bars),
                       .key = {{Mark::wrong, "not the value of the reference"}}});
}

}  // namespace

std::optional<Picture> divergence_picture(const Finding& finding) {
  const auto table = table_of(finding);
  if (!table) return rank_lines_picture(finding);
  bool all_numbers = true;
  for (const auto& row : table->rows)
    for (const auto& column : table->columns)
      all_numbers = all_numbers && number_in(row[column.place]).has_value();
  const auto& first = table->columns.front().label;
  const bool has_reference = first.rank == kReference;
  Picture picture{
      .title = "Where the ranks " + std::string(has_reference ? "and the reference part" : "part"),
      .caption = split(finding.text, '\n').front(),
      .body = Grid(),
      .key = {{Mark::wrong, has_reference ? "not the value of the reference"
                                          : "not the value of " + first.text}}};
  if (all_numbers)
    picture.body = bars_of(*table);
  else
    picture.body = grid_of(*table);
  if (picture.caption.empty()) picture.caption = finding.where;
  return within_marks(std::move(picture));
}

}  // namespace lockstep::reports
