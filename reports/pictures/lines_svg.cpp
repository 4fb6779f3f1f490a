#include "reports/pictures/drawings.h"

#include <algorithm>
#include <cmath>

namespace lockstep::reports {

namespace {

constexpr double kPlotMost = 460, kPlotLeast = 240, kPlotHigh = 220;
constexpr double kLabelGap = 30;  // between the end of a line and its label
constexpr double kSeriesHigh = 17;

// Where a plot is, and what is on its axes.
struct Plot {
  const Lines& lines;
  double left, top, wide;
  Scale scale;
  double right() const { return left + wide; }
  double x(size_t column) const {
    return lines.columns.size() < 2 ? left
                                    : left + wide * static_cast<double>(column) /
                                                 static_cast<double>(lines.columns.size() - 1);
  }
  double y(double value) const { return top + kPlotHigh * (1 - scale.at(value)); }
};

void add_axes(Markup& svg, const Plot& plot) {
  for (int tick = 0; tick <= 4; ++tick) {
    const double value =
        plot.scale.least + (plot.scale.most - plot.scale.least) * static_cast<double>(tick) / 4;
    add_line(svg, plot.left, plot.y(value), plot.right(), plot.y(value), "faint");
    add_text(svg, number_text(value), plot.left - 8, plot.y(value), "end", "axis");
  }
  double free = 0;
  for (size_t column = 0; column < plot.lines.columns.size(); ++column) {
    const auto& name = plot.lines.columns[column];
    if (plot.x(column) - pixels(name) / 2 < free) continue;
    free = plot.x(column) + pixels(name) / 2 + 4;
    add_text(svg, name, plot.x(column), plot.top + kPlotHigh + 16, "middle", "axis");
  }
  add_text(svg, plot.lines.column_axis, plot.right(), plot.top + kPlotHigh + 36, "end", "axis");
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

// The label of a series, with its shape or a piece of its line.
void add_series_label(Markup& svg, const Lines::Series& series, size_t number, bool ends_alone,
                      double x, double y) {
  add_shape(svg, series.label, x, y);
  if (ends_alone)
    add_point(svg, number, x, y);
  else if (series.label.rank == kNobody)
    add_path(svg, series.label, number, point_text(x - 9, y) + " " + point_text(x + 9, y));
  add_text(svg, series.label.text, x + kLabelGap - 16, y, "start");
}

// Where a series ends.
struct End {
  double y;
  const Lines::Series* series;
  size_t number, column;
};
std::vector<End> ends_of(const Plot& plot) {
  std::vector<End> ends;
  for (const auto& series : plot.lines.series)
    for (size_t column = series.values.size(); column-- > 0;)
      if (!std::isnan(series.values[column])) {
        ends.push_back({plot.y(series.values[column]), &series,
                        static_cast<size_t>(&series - plot.lines.series.data()), column});
        break;
      }
  return ends;
}

// Labels at the ends of lines, moved apart where they would cover each other. Returns where the
// last one ends.
double add_end_labels(Markup& svg, const Plot& plot) {
  auto ends = ends_of(plot);
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.y < b.y; });
  double free = 0;
  for (auto& end : ends) {
    end.y = std::max(end.y, free);
    free = end.y + kSeriesHigh;
    add_series_label(svg, *end.series, end.number, is_alone(*end.series, end.column),
                     plot.right() + 16, end.y);
  }
  return free;
}

// Labels below the plot, side by side. Returns where they end.
double add_labels_below(Markup& svg, const Plot& plot, double room) {
  double x = kMargin + 9, y = plot.top + kPlotHigh + 60;
  for (const auto& end : ends_of(plot)) {
    const double wide = kLabelGap - 16 + pixels(end.series->label.text);
    if (x > kMargin + 9 && x + wide > room - kMargin) {
      x = kMargin + 9;
      y += kSeriesHigh + 4;
    }
    add_series_label(svg, *end.series, end.number, is_alone(*end.series, end.column), x, y);
    x += wide + kLabelGap;
  }
  return y + kSeriesHigh;
}

}  // namespace

Drawing drawn(const Lines& lines, double room) {
  Drawing out;
  const auto scale = scale_of(lines);
  double ticks = 0;
  for (int tick = 0; tick <= 4; ++tick)
    ticks = std::max(ticks, pixels(number_text(scale.least + (scale.most - scale.least) *
                                                                 static_cast<double>(tick) / 4)));
  std::vector<Label> labels;
  for (const auto& series : lines.series) labels.push_back(series.label);
  const double left = kMargin + ticks + 10, beside = kLabelGap + widest(labels) + kMargin;
  const bool ends_fit = room - left - beside >= kPlotLeast;
  const double half_name = pixels(lines.columns.back()) / 2;
  const Plot plot{lines, left, kMargin + kLineHeight,
                  std::min(kPlotMost, room - left - (ends_fit ? beside : half_name + kMargin)),
                  scale};
  add_text(out.marks, lines.value_axis, kMargin, kMargin + 4, "start", "axis");
  add_axes(out.marks, plot);
  for (const auto& series : lines.series) {
    std::string points;
    for (size_t column = 0; column < series.values.size(); ++column)
      if (!std::isnan(series.values[column]))
        points +=
            (points.empty() ? "" : " ") + point_text(plot.x(column), plot.y(series.values[column]));
    const auto number = static_cast<size_t>(&series - lines.series.data());
    add_path(out.marks, series.label, number, points);
    for (size_t column = 0; column < series.values.size(); ++column) {
      if (std::isnan(series.values[column])) continue;
      const double x = plot.x(column), y = plot.y(series.values[column]);
      add_shape(out.marks, series.label, x, y);
      if (is_alone(series, column)) add_point(out.marks, number, x, y);
    }
  }
  const double end =
      ends_fit ? add_end_labels(out.marks, plot) : add_labels_below(out.marks, plot, room);
  out.wide = ends_fit ? plot.right() + beside
                      : std::max(plot.right() + half_name, room - kMargin) + kMargin;
  out.high = std::max(plot.top + kPlotHigh + 48, end + kMargin);
  return out;
}

}  // namespace lockstep::reports
