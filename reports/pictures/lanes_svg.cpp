#include "reports/pictures/drawings.h"
#include "reports/pictures/lanes.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

constexpr double kTimeMost = 620, kRowHigh = 22, kLaneGap = 8, kSpanLeast = 2, kTickRoom = 70;
constexpr double kBehind = 24;  // for half the last number of the axis

// Where lanes are: beside their labels, or below them where these would take half of the room.
struct Place {
  double label_at, left, wide;
  bool has_labels_above;
};
Place place_within(const Lanes& lanes, double room) {
  std::vector<Label> labels{{lanes.time_axis}};
  for (const auto& lane : lanes.lanes) labels.push_back(lane.label);
  Place place{kMargin + label_column(labels), 0, 0, false};
  place.left = place.label_at + widest(labels) + 20;
  place.has_labels_above = place.left > room / 2;
  if (place.has_labels_above) place.left = kMargin + 10;
  place.wide = std::min(kTimeMost, room - place.left - kBehind);
  return place;
}

void add_row(Markup& svg, const std::vector<Lanes::Span>& row, const Label& label, double y,
             const Scale& scale, const Place& place) {
  const auto x = [&](double time) { return place.left + place.wide * scale.at(time); };
  for (const auto& span : row)
    add_box(svg, x(span.from), y + 1, std::max(kSpanLeast, x(span.to) - x(span.from)), kRowHigh - 2,
            "cell " + class_of(label) + class_of(span.mark));
  for (const auto& run : joined_spans(row)) {
    // In the longest part, since a border between two would cut the text.
    const auto begin = row.begin() + static_cast<std::ptrdiff_t>(run.begin);
    const auto part = std::max_element(
        begin, row.begin() + static_cast<std::ptrdiff_t>(run.end),
        [](const auto& a, const auto& b) { return a.to - a.from < b.to - b.from; });
    const double from = x(part->from), to = x(part->to);
    auto text = part->text + sign_of(part->mark);
    if (pixels(text) > to - from) text = part->text;
    if (pixels(text) <= to - from) add_text(svg, text, (from + to) / 2, y + kRowHigh / 2, "middle");
  }
}

}  // namespace

Drawing drawn(const Lanes& lanes, double room) {
  Drawing out;
  const auto place = place_within(lanes, room);
  const auto scale = scale_of(lanes);
  const double axis = kMargin + 10 + (place.has_labels_above ? kLineHeight : 0);
  const double top = axis + kLineHeight - 10;
  Markup boxes;
  double y = top;
  for (const auto& lane : lanes.lanes) {
    add_label(boxes, lane.label, place.label_at, y + kRowHigh / 2);
    if (place.has_labels_above) y += kRowHigh;
    const auto rows = rows_of(lane);
    for (const auto& row : rows) {
      add_row(boxes, row, lane.label, y, scale, place);
      y += kRowHigh;
    }
    y += (rows.empty() && !place.has_labels_above ? kRowHigh : 0) + kLaneGap;
  }
  add_text(out.marks, lanes.time_axis, place.label_at, kMargin + 10, "start", "axis");
  for (const double tick : ticks_of(scale, static_cast<size_t>(place.wide / kTickRoom))) {
    const double x = place.left + place.wide * scale.at(tick);
    add_line(out.marks, x, top - 4, x, y, "faint");
    add_text(out.marks, tick_text(tick), x, axis, "middle", "axis");
  }
  out.marks.raw(boxes.take());
  out.wide = place.left + place.wide + kBehind;
  out.high = y + kMargin;
  return out;
}

}  // namespace lockstep::reports
