// A table as values. Reports lay it out as text (reports/findings/text.h) and draw it.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep {

struct Table {
  // The content of a column: the names of the rows, what a rank holds, what it should hold, or
  // anything measured or said of these.
  enum class Holds { name, reference, value, measure };
  // `rank`: whose column it is; -1: nobody's.
  struct Column {
    std::string heading;
    Holds holds = Holds::measure;
    int rank = -1;
    bool operator==(const Column&) const = default;
  };
  struct Cell {
    std::string text;
    std::optional<double> number = {};  // a finite one
    bool is_wrong = false;
    bool operator==(const Cell&) const = default;
  };
  // `first`: the wrong row to read first.
  enum class Mark { none, wrong, first };
  // `remark` stands behind the cells. `rank`: whose row it is; -1: nobody's.
  struct Row {
    std::vector<Cell> cells;  // one for each column
    Mark mark = Mark::none;
    std::string remark = {};
    int rank = -1;
    bool operator==(const Row&) const = default;
  };

  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string heading_of_remarks = {};
  bool operator==(const Table&) const = default;
};

// Why it is so, in one case for certain: in a sentence, and with what to do.
struct Cause {
  std::string text;
  bool operator==(const Cause&) const = default;
};

// Sentences, causes and tables, in the order of reading.
using Details = std::vector<std::variant<std::string, Cause, Table>>;
Details& operator+=(Details& all, Details more);

}  // namespace lockstep
