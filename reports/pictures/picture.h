// A picture as plain values: what happened in one history, ready to be drawn. Renderers (text.h,
// svg.h, page.h) decide nothing: every number, label and sentence is here.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::reports {

// The owner of a row, line or bar. The same rank has the same colour and shape in every picture,
// and the reference has its own.
inline constexpr int kNobody = -1, kReference = -2;
struct Label {
  std::string text;
  int rank = kNobody;
};

// The label "rank 3".
Label rank_label(int rank);

// The special meaning of a mark, beside its text: each kind has a sign in text, and a hatch or a
// border in SVG, so that no colour is needed. In the order of weight.
enum class Mark { plain, filled, repeated, missing, wrong };

struct Cell {
  std::string text;
  Mark mark = Mark::plain;
};

// Rows of cells below columns, whose groups stand side by side: index grids, matrices, ladders,
// strips.
struct Grid {
  struct Columns {
    std::string title;  // of the group; may be empty
    std::vector<std::string> names;
  };
  struct Row {
    Label label;
    std::vector<Cell> cells;  // of all groups, one for each column
  };
  std::string column_axis;  // "step"
  std::vector<Columns> columns;
  std::vector<Row> rows;
};

// The least and the most value of lines or bars, zero included.
struct Scale {
  double least = 0, most = 0;
  // The position of a value, from 0 to 1; 0 on a scale of one value.
  double at(double value) const { return most > least ? (value - least) / (most - least) : 0; }
  // With `value` on it.
  Scale with(double value) const;
};

// Values as lengths from zero, in groups, on one scale.
struct Bars {
  struct Bar {
    Label label;
    double value = 0;
    std::string text;  // beside it
    Mark mark = Mark::plain;
  };
  struct Group {
    std::string title;  // may be empty
    std::vector<Bar> bars;
  };
  std::string value_axis;  // "gradient"
  std::vector<Group> groups;
};

// Values over steps, one line for each series, on one scale.
struct Lines {
  struct Series {
    Label label;
    std::vector<double> values;  // one for each column; NaN: none
  };
  std::string column_axis, value_axis;
  std::vector<std::string> columns;
  std::vector<Series> series;
  Scale range = {};  // shown at least: several pictures may have one scale
};

// A picture of what happened when: spans of time, or bricks of some size, in lanes on one axis.
// Spans of a lane that overlap are drawn below each other. Spans that touch and have one text are
// one to the reader, whose parts have marks of their own.
struct Lanes {
  struct Span {
    double from = 0, to = 0;
    std::string text;
    Mark mark = Mark::plain;
    size_t row = 0;  // of its lane; a row below where that is taken
  };
  struct Lane {
    Label label;
    std::vector<Span> spans;
  };
  std::string time_axis;  // "virtual microseconds"
  std::vector<Lane> lanes;
};

struct Picture {
  std::string title;    // what is shown
  std::string caption;  // the finding, one sentence
  std::variant<Grid, Bars, Lines, Lanes> body;
  std::vector<std::pair<Mark, std::string>> key = {};  // the meanings of the marks it has
  bool is_beside = false;  // beside the one before it, where a page has room
};

// Above this a picture shows nothing: aggregate.h draws neighbours as one.
inline constexpr size_t kMarksMost = 5'000;
inline constexpr size_t kLineColumnsMost = 60;  // of lines, whose columns are all side by side
size_t mark_count(const Picture& picture);

// Throws std::invalid_argument, naming the picture, for one that cannot be drawn: rows or series of
// the wrong length, no mark, too many, values that are infinite, no caption, a mark without a key.
void check(const Picture& picture);

// The numbers of a picture as a table; every row has as many cells as `header`. A cell that is a
// mark alone has the mark's meaning.
struct DataTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};
DataTable data_table(const Picture& picture);

// The lines of its key: the marks that it really has, each with its sign.
std::vector<std::string> key_of(const Picture& picture);

// The sign of a mark in text: "*" for a repeated one, nothing for a plain one.
std::string sign_of(Mark mark);

// At most six significant digits: "0.4375", "1e+09".
std::string number_text(double value);

Scale scale_of(const Bars& bars);
Scale scale_of(const Lines& lines);
Scale scale_of(const Lanes& lanes);  // from the first begin to the last end

}  // namespace lockstep::reports
