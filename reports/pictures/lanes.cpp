#include "reports/pictures/lanes.h"

#include "harness/base/text.h"
#include "reports/pictures/plot_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::reports {

namespace {

constexpr size_t kColumnsOfPaper = 80, kRoomLeast = 8;
constexpr double kTimeWide = 620, kRowHigh = 22, kLaneGap = 8, kSpanLeast = 2;
constexpr int kTicks = 4;

// Three significant digits are enough for an axis.
std::string tick_text(double time) {
  if (std::abs(time) >= 1000) return with_commas(std::llround(time));
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", time);
  return text;
}

// A span as characters: the sign of its mark, as in a grid.
std::string body_of(const Lanes::Span& span, size_t columns, const Style& style) {
  const auto sign = span.mark == Mark::plain ? "█" : sign_of(span.mark);
  std::string out;
  for (size_t i = 0; i < columns; ++i) out += shown(sign, style);
  return out;
}

std::string row_text(const std::vector<Lanes::Span>& row, const Scale& scale, size_t room,
                     const Label& label, const Style& style) {
  std::string out;
  size_t at = 0;
  for (const auto& span : row) {
    const auto place = [&](double time) {
      return static_cast<size_t>(scale.at(time) * static_cast<double>(room));
    };
    const size_t from = std::max(at, std::min(room - 1, place(span.from)));
    const size_t to = std::max(from + 1, place(span.to));
    if (from >= room) break;
    out += std::string(from - at, ' ') +
           coloured_as(body_of(span, std::min(to, room) - from, style), label, style);
    at = std::min(to, room);
  }
  return out;
}

}  // namespace

std::vector<std::vector<Lanes::Span>> rows_of(const Lanes::Lane& lane) {
  auto spans = lane.spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const auto& a, const auto& b) { return a.from < b.from; });
  std::vector<std::vector<Lanes::Span>> rows;
  for (auto& span : spans) {
    const auto free = std::find_if(rows.begin(), rows.end(),
                                   [&](const auto& row) { return row.back().to <= span.from; });
    (free == rows.end() ? rows.emplace_back() : *free).push_back(std::move(span));
  }
  return rows;
}

std::string lanes_text(const Lanes& lanes, const Style& style) {
  size_t label_columns = width(shown(lanes.time_axis, style));
  for (const auto& lane : lanes.lanes)
    label_columns = std::max(label_columns, width(shown(lane.label.text, style)));
  const size_t all = style.columns == 0 ? kColumnsOfPaper : style.columns;
  const size_t taken = label_columns + 4;
  const size_t room = all > taken + kRoomLeast ? all - taken : kRoomLeast;
  const auto scale = scale_of(lanes);
  const auto first = number_text(scale.least), last = number_text(scale.most);
  std::string out = "  " + padded(shown(lanes.time_axis, style), label_columns) + "  " + first;
  if (const size_t used = width(first) + width(last); used < room)
    out += std::string(room - used, ' ') + last;
  out += "\n";
  for (const auto& lane : lanes.lanes) {
    auto name = shown(lane.label.text, style);
    for (const auto& row : rows_of(lane)) {
      out += "  " + coloured_as(padded(name, label_columns), lane.label, style) + "  " +
             row_text(row, scale, room, lane.label, style) + "\n";
      name.clear();
    }
  }
  return out;
}

Drawing drawn(const Lanes& lanes) {
  Drawing out;
  std::vector<Label> labels{{lanes.time_axis}};
  for (const auto& lane : lanes.lanes) labels.push_back(lane.label);
  const double left = kMargin + kShapeColumn + widest(labels) + 12;
  const double top = kMargin + kLineHeight;
  const auto scale = scale_of(lanes);
  const auto x = [&](double time) { return left + kTimeWide * scale.at(time); };
  Markup boxes;
  double y = top;
  for (const auto& lane : lanes.lanes) {
    add_label(boxes, lane.label, y + kRowHigh / 2);
    const auto rows = rows_of(lane);
    for (const auto& row : rows) {
      for (const auto& span : row) {
        const double wide = std::max(kSpanLeast, x(span.to) - x(span.from));
        add_box(boxes, x(span.from), y + 1, wide, kRowHigh - 2,
                "cell " + class_of(lane.label) + class_of(span.mark));
        const auto text = span.text + sign_of(span.mark);
        if (pixels(text) + 6 <= wide)
          add_text(boxes, text, x(span.from) + wide / 2, y + kRowHigh / 2, "middle");
      }
      y += kRowHigh;
    }
    y += (rows.empty() ? kRowHigh : 0) + kLaneGap;
  }
  add_text(out.marks, lanes.time_axis, kMargin + kShapeColumn, kMargin + 10, "start", "axis");
  double free = 0;
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double time = scale.least + (scale.most - scale.least) * tick / kTicks;
    add_line(out.marks, x(time), top - 4, x(time), y, "faint");
    const auto text = tick_text(time);
    if (x(time) - pixels(text) / 2 < free) continue;
    free = x(time) + pixels(text) / 2 + 4;
    add_text(out.marks, text, x(time), kMargin + 10, "middle", "axis");
  }
  out.marks.raw(boxes.take());
  out.wide = left + kTimeWide + 40 + kMargin;
  out.high = y + kMargin;
  return out;
}

}  // namespace lockstep::reports
