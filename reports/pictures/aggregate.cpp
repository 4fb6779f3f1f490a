#include "reports/pictures/aggregate.h"

#include "harness/base/text.h"
#include "reports/style.h"

#include <algorithm>
#include <cmath>

namespace lockstep::reports {

namespace {

constexpr size_t kRowsMost = 500;  // of a grid whose rows are aggregated, if there are many

size_t block_of(size_t count, size_t most) {
  return most == 0 ? count : (count + most - 1) / most;
}

// "#0-#3".
std::string range_text(const std::string& first, const std::string& last) {
  return first == last ? first : first + "-" + last;
}

Mark worse(Mark a, Mark b) {
  return static_cast<int>(a) < static_cast<int>(b) ? b : a;  // the order in which they are declared
}

std::string largest_text(double value, size_t count) {
  return number_text(value) + " (largest of " + std::to_string(count) + ")";
}

Cell one_of(const std::vector<Cell>& cells) {
  Cell out;
  int64_t marked = 0;
  bool alike = true;
  for (const auto& cell : cells) {
    out.mark = worse(out.mark, cell.mark);
    marked += cell.mark == Mark::plain ? 0 : 1;
    alike = alike && cell.text == cells.front().text;
  }
  out.text = alike        ? cells.front().text
             : marked > 0 ? std::to_string(marked) + " of " + std::to_string(cells.size())
                          : std::to_string(cells.size()) + " values";
  return out;
}

Grid with_fewer_rows(const Grid& grid, size_t block) {
  Grid out{grid.column_axis, grid.columns, {}};
  for (size_t first = 0; first < grid.rows.size(); first += block) {
    const size_t end = std::min(first + block, grid.rows.size());
    const auto& label = grid.rows[first].label;
    auto& row = out.rows.emplace_back();
    row.label = {range_text(label.text, grid.rows[end - 1].label.text),
                 end - first == 1 ? label.rank : kNobody};
    for (size_t column = 0; column < grid.rows[first].cells.size(); ++column) {
      std::vector<Cell> cells;
      for (size_t each = first; each < end; ++each) cells.push_back(grid.rows[each].cells[column]);
      row.cells.push_back(one_of(cells));
    }
  }
  return out;
}

Grid with_fewer_columns(const Grid& grid, size_t block) {
  Grid out{grid.column_axis, {{"", {}}}, {}};
  std::vector<std::string> names;
  for (const auto& group : grid.columns)
    for (const auto& name : group.names)
      names.push_back(group.title.empty() ? name : group.title + " " + name);
  for (size_t first = 0; first < names.size(); first += block)
    out.columns[0].names.push_back(
        range_text(names[first], names[std::min(first + block, names.size()) - 1]));
  for (const auto& row : grid.rows) {
    auto& fewer = out.rows.emplace_back();
    fewer.label = row.label;
    for (size_t first = 0; first < row.cells.size(); first += block)
      fewer.cells.push_back(one_of({row.cells.begin() + static_cast<std::ptrdiff_t>(first),
                                    row.cells.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                            first + block, row.cells.size()))}));
  }
  return out;
}

// Each returns how many neighbours are one.
size_t aggregate(Grid& grid, size_t most) {
  const size_t columns = grid.rows.empty() ? 0 : grid.rows.front().cells.size();
  const size_t rows = block_of(grid.rows.size(), std::min(kRowsMost, most));
  if (rows > 1) grid = with_fewer_rows(grid, rows);
  const size_t block = block_of(columns, most / std::max<size_t>(1, grid.rows.size()));
  if (block > 1) grid = with_fewer_columns(grid, block);
  return std::max<size_t>(1, rows) * std::max<size_t>(1, block);
}

size_t aggregate(Bars& bars, size_t most) {
  std::vector<Bars::Bar> all;
  for (const auto& group : bars.groups)
    for (auto bar : group.bars) {
      if (!group.title.empty()) bar.label.text = group.title + ", " + bar.label.text;
      all.push_back(std::move(bar));
    }
  const size_t block = block_of(all.size(), most);
  bars.groups = {{"", {}}};
  for (size_t first = 0; first < all.size(); first += block) {
    const size_t end = std::min(first + block, all.size());
    auto bar = all[first];
    for (size_t each = first; each < end; ++each) {
      if (std::abs(all[each].value) > std::abs(bar.value)) bar.value = all[each].value;
      bar.mark = worse(bar.mark, all[each].mark);
    }
    bar.label = {range_text(all[first].label.text, all[end - 1].label.text), kNobody};
    bar.text = largest_text(bar.value, end - first);
    bars.groups[0].bars.push_back(std::move(bar));
  }
  return block;
}

double average_of(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values)
    if (!std::isnan(value)) sum += value, count += 1;
  return count == 0 ? std::nan("") : sum / count;
}

// Aggregates series too, where there are more than marks.
size_t aggregate(Lines& lines, size_t most) {
  const size_t series = block_of(lines.series.size(), most);
  std::vector<Lines::Series> fewer;
  for (size_t first = 0; first < lines.series.size(); first += series) {
    const size_t end = std::min(first + series, lines.series.size());
    auto one = lines.series[first];
    if (end - first > 1)
      one.label = {range_text(one.label.text, lines.series[end - 1].label.text), kNobody};
    for (size_t column = 0; column < one.values.size(); ++column) {
      std::vector<double> values;
      for (size_t each = first; each < end; ++each)
        values.push_back(lines.series[each].values[column]);
      one.values[column] = average_of(values);
    }
    fewer.push_back(std::move(one));
  }
  lines.series = std::move(fewer);
  const size_t room = std::min(kLineColumnsMost, most / std::max<size_t>(1, lines.series.size()));
  const size_t block = block_of(lines.columns.size(), std::max<size_t>(1, room));
  std::vector<std::string> columns;
  for (size_t first = 0; first < lines.columns.size(); first += block)
    columns.push_back(range_text(lines.columns[first],
                                 lines.columns[std::min(first + block, lines.columns.size()) - 1]));
  for (auto& one : lines.series) {
    std::vector<double> values;
    for (size_t first = 0; first < one.values.size(); first += block)
      values.push_back(average_of({one.values.begin() + static_cast<std::ptrdiff_t>(first),
                                   one.values.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                            first + block, one.values.size()))}));
    one.values = std::move(values);
  }
  lines.columns = std::move(columns);
  return series * block;
}

size_t aggregate(Lanes& lanes, size_t most) {
  size_t count = 0, longest = 0;
  for (const auto& lane : lanes.lanes) {
    count += lane.spans.size();
    longest = std::max(longest, lane.spans.size());
  }
  // A lane keeps one span at least.
  const size_t room = most > lanes.lanes.size() ? most - lanes.lanes.size() : 1;
  const size_t block = std::min(std::max<size_t>(1, longest), block_of(count, room));
  for (auto& lane : lanes.lanes) {
    std::vector<Lanes::Span> fewer;
    for (size_t first = 0; first < lane.spans.size(); first += block) {
      const size_t end = std::min(first + block, lane.spans.size());
      auto one = lane.spans[first];
      for (size_t each = first; each < end; ++each) {
        one.from = std::min(one.from, lane.spans[each].from);
        one.to = std::max(one.to, lane.spans[each].to);
        one.mark = worse(one.mark, lane.spans[each].mark);
      }
      if (end - first > 1) one.text = counted(end - first, "span");
      fewer.push_back(std::move(one));
    }
    lane.spans = std::move(fewer);
  }
  return block;
}

bool fits(const Picture& picture, size_t most) {
  const auto* lines = std::get_if<Lines>(&picture.body);
  return mark_count(picture) <= most && (!lines || lines->columns.size() <= kLineColumnsMost);
}

}  // namespace

Picture within_marks(Picture picture, size_t most) {
  if (fits(picture, most)) return picture;
  const auto marks = static_cast<int64_t>(mark_count(picture));
  const size_t block = std::visit([&](auto& body) { return aggregate(body, most); }, picture.body);
  picture.caption += "; of " + counted(marks, "mark") + ", " + std::to_string(block) +
                     " neighbours are drawn as one";
  return picture;
}

}  // namespace lockstep::reports
