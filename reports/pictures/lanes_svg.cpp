#include "reports/pictures/lanes.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

constexpr double kTimeWide = 560, kRowGap = 10;

std::string class_of(Lanes::Fill fill) {
  switch (fill) {
    case Lanes::Fill::solid:
      return "cell ";
    case Lanes::Fill::shaded:
      return "cell hatched ";
    case Lanes::Fill::dotted:
      return "dotted ";
  }
  return "";
}

}  // namespace

Drawing drawn(const Lanes& lanes) {
  constexpr int kTicks = 4;
  Drawing out;
  double label = pixels(lanes.time_axis), name = 0;
  for (const auto& row : lanes.rows) {
    label = std::max(label, pixels(row.label.text));
    for (const auto& lane : row.lanes) name = std::max(name, pixels(lane.name));
  }
  const double names = kMargin + kShapeColumn + label + 12;
  const double left = names + name + 12, top = kMargin + kLineHeight;
  const auto scale = scale_of(lanes);
  size_t count = 0;
  for (const auto& row : lanes.rows) count += row.lanes.size();
  const double bottom = top + static_cast<double>(count) * kLineHeight +
                        static_cast<double>(lanes.rows.size()) * kRowGap;
  add_text(out.marks, lanes.time_axis, kMargin + kShapeColumn, top - kLineHeight / 2, "start",
           "axis");
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double value = scale.most * tick / kTicks, x = left + kTimeWide * scale.at(value);
    add_line(out.marks, x, top, x, bottom, "faint");
    add_text(out.marks, number_text(value), x, top - kLineHeight / 2, "middle", "axis");
  }
  double y = top + kRowGap / 2;
  for (const auto& row : lanes.rows) {
    add_shape(out.marks, row.label, kMargin + 6, y + kLineHeight / 2);
    add_text(out.marks, row.label.text, kMargin + kShapeColumn, y + kLineHeight / 2, "start");
    for (const auto& lane : row.lanes) {
      add_text(out.marks, lane.name, names, y + kLineHeight / 2, "start", "axis");
      for (const auto& span : lane.spans) {
        const double from = left + kTimeWide * scale.at(span.from);
        const double wide = std::max(1.0, left + kTimeWide * scale.at(span.to) - from);
        add_box(out.marks, from, y + 2, wide, kLineHeight - 4,
                class_of(span.fill) + class_of(row.label));
        if (pixels(span.text) + 6 <= wide)
          add_text(out.marks, span.text, from + 4, y + kLineHeight / 2, "start");
      }
      y += kLineHeight;
    }
    y += kRowGap;
  }
  out.wide = left + kTimeWide + kMargin + 24;
  out.high = bottom + kMargin;
  return out;
}

}  // namespace lockstep::reports
