#include "reports/pictures/picture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>

namespace lockstep::reports {

namespace {

size_t column_count(const Grid& grid) {
  size_t count = 0;
  for (const auto& group : grid.columns) count += group.names.size();
  return count;
}

size_t marks_in(const Grid& grid) {
  return grid.rows.size() * column_count(grid);
}

size_t marks_in(const Bars& bars) {
  size_t count = 0;
  for (const auto& group : bars.groups) count += group.bars.size();
  return count;
}

size_t marks_in(const Lines& lines) {
  return lines.series.size() * lines.columns.size();
}

size_t marks_in(const Lanes& lanes) {
  size_t count = 0;
  for (const auto& lane : lanes.lanes) count += lane.spans.size();
  return count;
}

std::vector<Mark> marks_of(const Grid& grid) {
  std::vector<Mark> marks;
  for (const auto& row : grid.rows)
    for (const auto& cell : row.cells) marks.push_back(cell.mark);
  return marks;
}

std::vector<Mark> marks_of(const Bars& bars) {
  std::vector<Mark> marks;
  for (const auto& group : bars.groups)
    for (const auto& bar : group.bars) marks.push_back(bar.mark);
  return marks;
}

std::vector<Mark> marks_of(const Lines&) {
  return {};
}

std::vector<Mark> marks_of(const Lanes& lanes) {
  std::vector<Mark> marks;
  for (const auto& lane : lanes.lanes)
    for (const auto& span : lane.spans) marks.push_back(span.mark);
  return marks;
}

std::vector<Mark> marks_of(const Picture& picture) {
  return std::visit([](const auto& body) { return marks_of(body); }, picture.body);
}

// Names the fault of a picture, or nothing.
std::string fault_of(const Grid& grid) {
  for (const auto& row : grid.rows)
    if (row.cells.size() != column_count(grid))
      return "row '" + row.label.text + "' has " + std::to_string(row.cells.size()) +
             " cells for " + std::to_string(column_count(grid)) + " columns";
  return "";
}

std::string fault_of(const Bars& bars) {
  for (const auto& group : bars.groups)
    for (const auto& bar : group.bars)
      if (!std::isfinite(bar.value)) return "bar '" + bar.label.text + "' has no length";
  return "";
}

std::string fault_of(const Lines& lines) {
  if (lines.columns.size() > kLineColumnsMost)
    return "it has " + std::to_string(lines.columns.size()) + " columns, more than " +
           std::to_string(kLineColumnsMost);
  for (const auto& series : lines.series) {
    if (series.values.size() != lines.columns.size())
      return "series '" + series.label.text + "' has " + std::to_string(series.values.size()) +
             " values for " + std::to_string(lines.columns.size()) + " columns";
    for (const double value : series.values)
      if (std::isinf(value)) return "series '" + series.label.text + "' has an infinite value";
  }
  return "";
}

std::string fault_of(const Lanes& lanes) {
  for (const auto& lane : lanes.lanes)
    for (const auto& span : lane.spans)
      if (!std::isfinite(span.from) || !std::isfinite(span.to) || span.to < span.from)
        return "a span of '" + lane.label.text + "' ends before it begins";
  return "";
}

using Key = std::vector<std::pair<Mark, std::string>>;

std::string words_of(const Cell& cell, const Key& key) {
  for (const auto& [mark, meaning] : key)
    if (cell.text.empty() && cell.mark == mark) return meaning;
  return cell.text + sign_of(cell.mark);
}

DataTable table_of(const Grid& grid, const Key& key) {
  DataTable table{{grid.column_axis}, {}};
  for (const auto& group : grid.columns)
    for (const auto& name : group.names)
      table.header.push_back(group.title.empty() ? name : group.title + ", " + name);
  for (const auto& row : grid.rows) {
    auto& cells = table.rows.emplace_back(std::vector{row.label.text});
    for (const auto& cell : row.cells) cells.push_back(words_of(cell, key));
  }
  return table;
}

DataTable table_of(const Bars& bars, const Key&) {
  DataTable table{{"group", "bar", bars.value_axis}, {}};
  for (const auto& group : bars.groups)
    for (const auto& bar : group.bars)
      table.rows.push_back({group.title, bar.label.text, bar.text + sign_of(bar.mark)});
  return table;
}

DataTable table_of(const Lines& lines, const Key&) {
  DataTable table{{lines.column_axis}, {}};
  for (const auto& series : lines.series) table.header.push_back(series.label.text);
  for (size_t column = 0; column < lines.columns.size(); ++column) {
    auto& cells = table.rows.emplace_back(std::vector{lines.columns[column]});
    for (const auto& series : lines.series)
      cells.push_back(std::isnan(series.values[column]) ? "" : number_text(series.values[column]));
  }
  return table;
}

DataTable table_of(const Lanes& lanes, const Key&) {
  DataTable table{{"lane", "from, in " + lanes.time_axis, "to", "what"}, {}};
  for (const auto& lane : lanes.lanes)
    for (const auto& span : lane.spans)
      table.rows.push_back({lane.label.text, number_text(span.from), number_text(span.to),
                            span.text + sign_of(span.mark)});
  return table;
}

}  // namespace

Label rank_label(int rank) {
  return {"rank " + std::to_string(rank), rank};
}

size_t mark_count(const Picture& picture) {
  return std::visit([](const auto& body) { return marks_in(body); }, picture.body);
}

void check(const Picture& picture) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("picture '" + picture.title + "': " + why);
  };
  if (picture.title.empty() || picture.caption.empty()) refuse("it lacks a title or a caption");
  const auto count = mark_count(picture);
  if (count == 0) refuse("it has no mark");
  if (count > kMarksMost)
    refuse("it has " + std::to_string(count) + " marks, more than " + std::to_string(kMarksMost));
  if (const auto fault = std::visit([](const auto& body) { return fault_of(body); }, picture.body);
      !fault.empty())
    refuse(fault);
  for (const auto mark : marks_of(picture))
    if (mark != Mark::plain && std::none_of(picture.key.begin(), picture.key.end(),
                                            [&](const auto& entry) { return entry.first == mark; }))
      refuse("its key does not explain the mark '" + sign_of(mark) + "'");
}

DataTable data_table(const Picture& picture) {
  return std::visit([&](const auto& body) { return table_of(body, picture.key); }, picture.body);
}

std::vector<std::string> key_of(const Picture& picture) {
  const auto marks = marks_of(picture);
  std::vector<std::string> lines;
  for (const auto& [mark, meaning] : picture.key)
    if (std::find(marks.begin(), marks.end(), mark) != marks.end())
      lines.push_back(sign_of(mark) + " " + meaning);
  return lines;
}

std::string sign_of(Mark mark) {
  switch (mark) {
    case Mark::plain:
      return "";
    case Mark::filled:
      return "●";
    case Mark::repeated:
      return "*";
    case Mark::missing:
      return "?";
    case Mark::wrong:
      return "✗";
  }
  return "";
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value == 0 ? 0 : value);  // not "-0"
  return text;
}

Scale Scale::with(double value) const {
  return {std::min(least, value), std::max(most, value)};
}

Scale scale_of(const Bars& bars) {
  Scale scale;
  for (const auto& group : bars.groups)
    for (const auto& bar : group.bars) scale = scale.with(bar.value);
  return scale;
}

Scale scale_of(const Lines& lines) {
  Scale scale = lines.range;
  for (const auto& series : lines.series)
    for (const double value : series.values)
      if (!std::isnan(value)) scale = scale.with(value);
  return scale;
}

Scale scale_of(const Lanes& lanes) {
  std::optional<Scale> scale;
  for (const auto& lane : lanes.lanes)
    for (const auto& span : lane.spans)
      scale = scale.value_or(Scale{span.from, span.from}).with(span.from).with(span.to);
  return scale.value_or(Scale{});
}

}  // namespace lockstep::reports
