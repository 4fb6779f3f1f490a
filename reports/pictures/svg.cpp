#include "reports/pictures/svg.h"

#include "reports/pictures/lanes.h"
#include "reports/pictures/shapes.h"

#include <algorithm>
#include <cmath>

namespace lockstep::reports {

namespace {

constexpr double kGroupGap = 26;

Drawing drawn(const Grid& grid) {
  Drawing out;
  std::vector<Label> labels{{grid.column_axis}};
  for (const auto& row : grid.rows) labels.push_back(row.label);
  const double left = kMargin + kShapeColumn + widest(labels) + 12;
  const bool has_titles = std::any_of(grid.columns.begin(), grid.columns.end(),
                                      [](const auto& group) { return !group.title.empty(); });
  const double top = kMargin + (has_titles ? 2 : 1) * kLineHeight;
  add_text(out.marks, grid.column_axis, kMargin + kShapeColumn, top - kLineHeight / 2, "start",
           "axis");
  double x = left;
  size_t column = 0;
  for (const auto& group : grid.columns) {
    const double begin = x;
    for (const auto& name : group.names) {
      double wide = pixels(name);
      for (const auto& row : grid.rows)
        wide = std::max(wide, pixels(row.cells[column].text + sign_of(row.cells[column].mark)));
      wide += 16;
      add_text(out.marks, name, x + wide / 2, top - kLineHeight / 2, "middle", "axis");
      for (size_t r = 0; r < grid.rows.size(); ++r) {
        const auto& cell = grid.rows[r].cells[column];
        const double y = top + static_cast<double>(r) * kLineHeight;
        if (!cell.text.empty() || cell.mark != Mark::plain)
          add_box(out.marks, x + 1, y + 1, wide - 2, kLineHeight - 2,
                  "cell " + class_of(grid.rows[r].label) + class_of(cell.mark));
        add_text(out.marks, cell.text + sign_of(cell.mark), x + wide / 2, y + kLineHeight / 2,
                 "middle");
      }
      x += wide;
      ++column;
    }
    x = std::max(x, begin + pixels(group.title));
    add_text(out.marks, group.title, begin, kMargin + kLineHeight / 2, "start", "strong");
    x += kGroupGap;
  }
  for (size_t r = 0; r < grid.rows.size(); ++r)
    add_label(out.marks, grid.rows[r].label, top + (static_cast<double>(r) + 0.5) * kLineHeight);
  out.wide = x - kGroupGap + kMargin;
  out.high = top + static_cast<double>(grid.rows.size()) * kLineHeight + kMargin;
  return out;
}

Drawing drawn(const Bars& bars) {
  constexpr double kRoom = 380;
  Drawing out;
  std::vector<Label> labels;
  double text = 0;
  for (const auto& group : bars.groups)
    for (const auto& bar : group.bars) {
      labels.push_back(bar.label);
      text = std::max(text, pixels(bar.text + sign_of(bar.mark)));
    }
  const double left = kMargin + kShapeColumn + widest(labels) + 12;
  const auto scale = scale_of(bars);
  const double zero = left + kRoom * scale.at(0);
  double y = kMargin + kLineHeight / 2;
  add_text(out.marks, bars.value_axis, zero, y, "start", "axis");
  y += kLineHeight;
  const double top = y - kLineHeight / 2;
  for (const auto& group : bars.groups) {
    if (!group.title.empty()) {
      add_text(out.marks, group.title, kMargin, y, "start", "strong");
      y += kLineHeight;
    }
    for (const auto& bar : group.bars) {
      add_label(out.marks, bar.label, y);
      const double x = left + kRoom * scale.at(bar.value);
      add_box(out.marks, std::min(x, zero), y - 9, std::abs(x - zero), 18,
              "bar " + class_of(bar.label) + class_of(bar.mark));
      add_text(out.marks, bar.text + sign_of(bar.mark), std::max(x, zero) + 6, y, "start");
      y += kLineHeight;
    }
  }
  add_line(out.marks, zero, top, zero, y - kLineHeight / 2, "rule");
  out.wide = left + kRoom + 6 + text + kMargin;
  out.high = y - kLineHeight / 2 + kMargin;
  return out;
}

constexpr double kPlotWide = 460, kPlotHigh = 220;

// Where a plot is, and what is on its axes.
struct Plot {
  const Lines& lines;
  double left, top;
  Scale scale;
  double x(size_t column) const {
    return lines.columns.size() < 2 ? left
                                    : left + kPlotWide * static_cast<double>(column) /
                                                 static_cast<double>(lines.columns.size() - 1);
  }
  double y(double value) const { return top + kPlotHigh * (1 - scale.at(value)); }
};

void add_axes(Markup& svg, const Plot& plot) {
  for (int tick = 0; tick <= 4; ++tick) {
    const double value =
        plot.scale.least + (plot.scale.most - plot.scale.least) * static_cast<double>(tick) / 4;
    add_line(svg, plot.left, plot.y(value), plot.left + kPlotWide, plot.y(value), "faint");
    add_text(svg, number_text(value), plot.left - 8, plot.y(value), "end", "axis");
  }
  double free = 0;
  for (size_t column = 0; column < plot.lines.columns.size(); ++column) {
    const auto& name = plot.lines.columns[column];
    if (plot.x(column) - pixels(name) / 2 < free) continue;
    free = plot.x(column) + pixels(name) / 2 + 4;
    add_text(svg, name, plot.x(column), plot.top + kPlotHigh + 16, "middle", "axis");
  }
  add_text(svg, plot.lines.column_axis, plot.left + kPlotWide, plot.top + kPlotHigh + 36, "end",
           "axis");
}

// A line that is nobody's differs by its dashes; `number` counts the series.
void add_path(Markup& svg, const Label& label, size_t number, const std::string& points) {
  Markup::Attributes attributes{{"class", "path " + class_of(label)}, {"points", points}};
  if (label.rank == kNobody && number > 0)
    attributes.emplace_back("stroke-dasharray", number % 2 == 0 ? "2 3" : "10 3");
  svg.empty("polyline", attributes);
}

std::string point_text(double x, double y) {
  return coordinate(x) + "," + coordinate(y);
}

// A value of nobody's to which no line leads.
bool is_alone(const Lines::Series& series, size_t column) {
  const auto has = [&](size_t at) {
    return at < series.values.size() && !std::isnan(series.values[at]);
  };
  return series.label.rank == kNobody && has(column) && !has(column - 1) && !has(column + 1);
}
void add_point(Markup& svg, size_t number, double x, double y) {
  constexpr double kHalf = 4.5;
  if (number % 2 == 0)
    svg.empty("circle", {{"class", "point"},
                         {"cx", coordinate(x)},
                         {"cy", coordinate(y)},
                         {"r", coordinate(kHalf)}});
  else
    add_box(svg, x - kHalf, y - kHalf, 2 * kHalf, 2 * kHalf, "point");
}

// Labels at the ends of lines, moved apart where they would cover each other, each with its shape
// or a piece of its line.
void add_end_labels(Markup& svg, const Plot& plot) {
  struct End {
    double y;
    const Lines::Series* series;
    size_t number, column;
  };
  std::vector<End> ends;
  for (const auto& series : plot.lines.series)
    for (size_t column = series.values.size(); column-- > 0;)
      if (!std::isnan(series.values[column])) {
        ends.push_back({plot.y(series.values[column]), &series,
                        static_cast<size_t>(&series - plot.lines.series.data()), column});
        break;
      }
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.y < b.y; });
  double free = 0;
  const double x = plot.left + kPlotWide + 16;
  for (auto& end : ends) {
    end.y = std::max(end.y, free);
    free = end.y + 17;
    const auto& label = end.series->label;
    add_shape(svg, label, x, end.y);
    if (is_alone(*end.series, end.column))
      add_point(svg, end.number, x, end.y);
    else if (label.rank == kNobody)
      add_path(svg, label, end.number, point_text(x - 9, end.y) + " " + point_text(x + 9, end.y));
    add_text(svg, label.text, x + 14, end.y, "start");
  }
}

Drawing drawn(const Lines& lines) {
  Drawing out;
  const auto scale = scale_of(lines);
  double ticks = 0;
  for (int tick = 0; tick <= 4; ++tick)
    ticks = std::max(ticks, pixels(number_text(scale.least + (scale.most - scale.least) *
                                                                 static_cast<double>(tick) / 4)));
  const Plot plot{lines, kMargin + ticks + 10, kMargin + kLineHeight, scale};
  add_text(out.marks, lines.value_axis, kMargin, kMargin + 4, "start", "axis");
  add_axes(out.marks, plot);
  std::vector<Label> labels;
  for (const auto& series : lines.series) {
    labels.push_back(series.label);
    std::string points;
    for (size_t column = 0; column < series.values.size(); ++column)
      if (!std::isnan(series.values[column]))
        points +=
            (points.empty() ? "" : " ") + point_text(plot.x(column), plot.y(series.values[column]));
    const size_t number = labels.size() - 1;
    add_path(out.marks, series.label, number, points);
    for (size_t column = 0; column < series.values.size(); ++column) {
      if (std::isnan(series.values[column])) continue;
      const double x = plot.x(column), y = plot.y(series.values[column]);
      add_shape(out.marks, series.label, x, y);
      if (is_alone(series, column)) add_point(out.marks, number, x, y);
    }
  }
  add_end_labels(out.marks, plot);
  out.wide = plot.left + kPlotWide + 30 + widest(labels) + kMargin;
  out.high = plot.top + std::max(kPlotHigh + 48, static_cast<double>(labels.size()) * 17);
  return out;
}

}  // namespace

std::string svg_of(const Picture& picture, int number) {
  check(picture);
  auto drawing = std::visit([](const auto& body) { return drawn(body); }, picture.body);
  const std::string id = "picture" + std::to_string(number);
  Markup svg;
  svg.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                   {"role", "img"},
                   {"aria-labelledby", id + "-title " + id + "-text"},
                   {"width", coordinate(drawing.wide)},
                   {"height", coordinate(drawing.high)},
                   {"viewBox", "0 0 " + coordinate(drawing.wide) + " " + coordinate(drawing.high)}})
      .element("title", {{"id", id + "-title"}}, picture.title)
      .element("desc", {{"id", id + "-text"}}, picture.caption);
  return svg.raw(drawing.marks.take()).close().take();
}

}  // namespace lockstep::reports
