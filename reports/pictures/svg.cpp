#include "reports/pictures/svg.h"

#include "reports/pictures/drawings.h"

#include <algorithm>
#include <cmath>

namespace lockstep::reports {

Drawing drawn(const Bars& bars, double room) {
  constexpr double kBarMost = 380, kBarLeast = 80, kTextGap = 6;
  Drawing out;
  std::vector<Label> labels;
  double text = 0;
  for (const auto& group : bars.groups)
    for (const auto& bar : group.bars) {
      labels.push_back(bar.label);
      text = std::max(text, pixels(bar.text + sign_of(bar.mark)));
    }
  const double label_at = kMargin + label_column(labels);
  const double left = label_at + widest(labels) + 12;
  const double wide = std::clamp(room - left - kTextGap - text - kMargin, kBarLeast, kBarMost);
  const auto scale = scale_of(bars);
  const double zero = left + wide * scale.at(0);
  double y = kMargin + kLineHeight / 2;
  add_text(out.marks, bars.value_axis, std::min(zero, room - kMargin - pixels(bars.value_axis)), y,
           "start", "axis");
  y += kLineHeight;
  for (const auto& group : bars.groups) {
    if (!group.title.empty())
      for (const auto& line : lines_within(group.title, room - 2 * kMargin)) {
        add_text(out.marks, line, kMargin, y, "start", "strong");
        y += kLineHeight;
      }
    const double top = y - kLineHeight / 2;
    for (const auto& bar : group.bars) {
      add_label(out.marks, bar.label, label_at, y);
      const double x = left + wide * scale.at(bar.value);
      add_box(out.marks, std::min(x, zero), y - 9, std::abs(x - zero), 18,
              "bar " + class_of(bar.label) + class_of(bar.mark));
      add_text(out.marks, bar.text + sign_of(bar.mark), std::max(x, zero) + kTextGap, y, "start");
      y += kLineHeight;
    }
    add_line(out.marks, zero, top, zero, y - kLineHeight / 2, "rule");
  }
  out.wide = left + wide + kTextGap + text + kMargin;
  for (const auto& group : bars.groups)
    for (const auto& line : lines_within(group.title, room - 2 * kMargin))
      out.wide = std::max(out.wide, 2 * kMargin + pixels(line));
  out.high = y - kLineHeight / 2 + kMargin;
  return out;
}

std::string svg_of(const Picture& picture, int number, double room) {
  check(picture);
  auto drawing = std::visit([&](const auto& body) { return drawn(body, room); }, picture.body);
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
