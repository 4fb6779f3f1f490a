// The table of a finding as a picture.
#include "reports/pictures/aggregate.h"
#include "reports/pictures/observed.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

using Holds = Table::Holds;

// The numbers of the columns with values: the reference's and the ranks'.
std::vector<size_t> columns_of(const Table& table) {
  std::vector<size_t> columns;
  for (size_t column = 0; column < table.columns.size(); ++column)
    if (table.columns[column].holds == Holds::reference ||
        table.columns[column].holds == Holds::value)
      columns.push_back(column);
  return columns;
}

// The first table of values that a finding has: two columns of them at least.
const Table* table_of(const Finding& finding) {
  for (const auto& detail : finding.details)
    if (const auto* table = std::get_if<Table>(&detail);
        table && columns_of(*table).size() > 1 && !table->rows.empty())
      return table;
  return nullptr;
}

Label label_of(const Table::Column& column, int rank) {
  if (column.holds == Holds::reference) return {"reference", kReference};
  return rank < 0 ? Label{column.heading} : rank_label(rank);
}

Cell cell_of(const Table::Cell& cell) {
  return {cell.text, cell.is_wrong ? Mark::wrong : Mark::plain};
}

Bars bars_of(const Table& table, const std::vector<size_t>& columns) {
  Bars bars{.value_axis = "value", .groups = {}};
  for (const auto& row : table.rows) {
    auto& group = bars.groups.emplace_back(Bars::Group{row.cells.front().text, {}});
    for (const auto at : columns) {
      const auto& column = table.columns[at];
      const auto& [text, mark] = cell_of(row.cells[at]);
      group.bars.push_back({label_of(column, column.rank < 0 ? row.rank : column.rank),
                            row.cells[at].number.value_or(0), text, mark});
    }
  }
  return bars;
}

Grid grid_of(const Table& table, const std::vector<size_t>& columns) {
  Grid grid{.column_axis = "record", .columns = {{"", {}}}, .rows = {}};
  for (const auto& row : table.rows) grid.columns[0].names.push_back(row.cells.front().text);
  for (const auto at : columns) {
    const auto& column = table.columns[at];
    auto& line = grid.rows.emplace_back(Grid::Row{label_of(column, column.rank), {}});
    for (const auto& row : table.rows) line.cells.push_back(cell_of(row.cells[at]));
  }
  return grid;
}

}  // namespace

std::optional<Picture> divergence_picture(const Finding& finding) {
  const auto* const table = table_of(finding);
  if (!table) return {};
  const auto columns = columns_of(*table);
  const bool all_numbers =
      std::all_of(table->rows.begin(), table->rows.end(), [&](const Table::Row& row) {
        return std::all_of(columns.begin(), columns.end(),
                           [&](size_t column) { return row.cells[column].number.has_value(); });
      });
  const auto& first = table->columns[columns.front()];
  const bool has_reference = first.holds == Holds::reference;
  Picture picture{
      .title = "Where the ranks " + std::string(has_reference ? "and the reference part" : "part"),
      .caption = finding.diagnosis.empty() ? finding.where.text() : finding.diagnosis,
      .body = Grid(),
      .key = {{Mark::wrong,
               "not the value of " + std::string(has_reference ? "the " : "") + first.heading}}};
  if (all_numbers)
    picture.body = bars_of(*table, columns);
  else
    picture.body = grid_of(*table, columns);
  return within_marks(std::move(picture));
}

}  // namespace lockstep::reports
