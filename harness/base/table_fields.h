// The fields of tables in files of a run. A row has the texts of its cells, their numbers, null
// where there is none, and which of them are wrong, by column.
#pragma once

#include "harness/base/forms.h"
#include "harness/base/table.h"

namespace lockstep {

struct TextsOfCells {
  using Stored = std::vector<std::string>;
  static Stored stored(const std::vector<Table::Cell>& cells) {
    Stored texts;
    for (const auto& cell : cells) texts.push_back(one_line(cell.text));
    return texts;
  }
  static std::string take(Stored stored, std::vector<Table::Cell>& cells) {
    for (auto& text : stored) cells.push_back({.text = std::move(text)});
    return {};
  }
};

struct NumbersOfCells {
  using Stored = std::vector<std::optional<double>>;
  static Stored stored(const std::vector<Table::Cell>& cells) {
    Stored numbers;
    for (const auto& cell : cells) numbers.push_back(cell.number);
    return numbers;
  }
  static std::string take(Stored stored, std::vector<Table::Cell>& cells) {
    if (stored.size() != cells.size()) return "as many numbers as 'cells'";
    for (size_t column = 0; column < cells.size(); ++column) cells[column].number = stored[column];
    return {};
  }
};

struct WrongCells {
  using Stored = std::vector<int64_t>;
  static Stored stored(const std::vector<Table::Cell>& cells) {
    Stored wrong;
    for (size_t column = 0; column < cells.size(); ++column)
      if (cells[column].is_wrong) wrong.push_back(static_cast<int64_t>(column));
    return wrong;
  }
  static std::string take(Stored stored, std::vector<Table::Cell>& cells) {
    for (const auto column : stored) {
      if (!std::in_range<size_t>(column) || static_cast<size_t>(column) >= cells.size())
        return "columns below " + std::to_string(cells.size());
      cells[static_cast<size_t>(column)].is_wrong = true;
    }
    return {};
  }
};

template <>
struct FieldsOf<Table::Column> {
  using T = Table::Column;
  static constexpr auto fields() {
    return std::tuple{line("heading", &T::heading), field("holds", &T::holds),
                      field("rank", &T::rank, at_least(-1))};
  }
};

template <>
struct FieldsOf<Table::Row> {
  using T = Table::Row;
  static constexpr auto fields() {
    return std::tuple{field<TextsOfCells>("cells", &T::cells, kLine),
                      field<NumbersOfCells>("numbers", &T::cells),
                      field<WrongCells>("wrong", &T::cells),
                      field("mark", &T::mark),
                      line("remark", &T::remark),
                      field("rank", &T::rank, at_least(-1))};
  }
};

template <>
struct FieldsOf<Table> {
  static constexpr auto fields() {
    return std::tuple{field("columns", &Table::columns), field("rows", &Table::rows),
                      line("heading_of_remarks", &Table::heading_of_remarks)};
  }
  static std::string finish(const Table& table) {
    for (const auto& row : table.rows)
      if (row.cells.size() != table.columns.size())
        return "expected a cell for each of the 'columns' in each of the 'rows'";
    return {};
  }
};

template <>
struct FieldsOf<Cause> {
  static constexpr auto fields() { return std::tuple{field("cause", &Cause::text)}; }
};

}  // namespace lockstep
