#include "reports/pictures/shapes.h"

#include "harness/base/text.h"
#include "reports/style.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::reports {

namespace {

constexpr int kColours = 7;  // of ranks, in the style sheet
constexpr double kSize = 5;  // from the middle of a shape to its edge

std::string points(std::initializer_list<std::pair<double, double>> corners) {
  std::string out;
  for (const auto& [x, y] : corners)
    out += (out.empty() ? "" : " ") + coordinate(x) + "," + coordinate(y);
  return out;
}

}  // namespace

double pixels(const std::string& text) {
  return kLetter * static_cast<double>(width(text));
}

std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", std::round(value * 100) / 100);
  return text;
}

std::string class_of(const Label& label) {
  if (label.rank == kReference) return "reference";
  if (label.rank < 0) return "nobody";
  return "rank" + std::to_string(label.rank % kColours);
}

std::string class_of(Mark mark) {
  switch (mark) {
    case Mark::plain:
      return "";
    case Mark::filled:
      return " filled";
    case Mark::repeated:
      return " hatched";
    case Mark::missing:
      return " dotted";
    case Mark::wrong:
      return " wrong";
  }
  return "";
}

double widest(const std::vector<Label>& labels) {
  double wide = 0;
  for (const auto& label : labels) wide = std::max(wide, pixels(label.text));
  return wide;
}

double label_column(const std::vector<Label>& labels) {
  const bool has_shapes = std::any_of(labels.begin(), labels.end(),
                                      [](const auto& label) { return label.rank != kNobody; });
  return has_shapes ? kShapeColumn : 0;
}

void add_label(Markup& svg, const Label& label, double x, double y) {
  add_shape(svg, label, x - kShapeColumn + 6, y);
  add_text(svg, label.text, x, y, "start");
}

void add_shape(Markup& svg, const Label& label, double x, double y) {
  if (label.rank == kNobody) return;
  const std::string its_class = "shape " + class_of(label);
  const double s = kSize;
  const auto polygon = [&](std::initializer_list<std::pair<double, double>> corners) {
    svg.empty("polygon", {{"class", its_class}, {"points", points(corners)}});
  };
  if (label.rank == kReference) {
    svg.empty(
        "circle",
        {{"class", "ring"}, {"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", coordinate(s)}});
    return;
  }
  switch (label.rank % 5) {
    case 0:
      svg.empty("circle", {{"class", its_class},
                           {"cx", coordinate(x)},
                           {"cy", coordinate(y)},
                           {"r", coordinate(s)}});
      break;
    case 1:
      polygon({{x - s, y - s}, {x + s, y - s}, {x + s, y + s}, {x - s, y + s}});
      break;
    case 2:
      polygon({{x, y - s}, {x + s, y + s}, {x - s, y + s}});
      break;
    case 3:
      polygon({{x, y - s}, {x + s, y}, {x, y + s}, {x - s, y}});
      break;
    default:
      polygon({{x - s, y - s}, {x + s, y - s}, {x, y + s}});
  }
}

std::vector<std::string> lines_within(const std::string& text, double room) {
  std::vector<std::string> lines;
  for (const auto& word : split(text, ' '))
    if (lines.empty() || pixels(lines.back() + " " + word) > room)
      lines.push_back(word);
    else
      lines.back() += " " + word;
  return lines;
}

void add_text(Markup& svg, const std::string& text, double x, double y, const char* anchor,
              const std::string& its_class) {
  Markup::Attributes attributes{
      {"x", coordinate(x)}, {"y", coordinate(y + 4.5)}, {"text-anchor", anchor}};
  if (!its_class.empty()) attributes.emplace_back("class", its_class);
  svg.element("text", attributes, text);
}

void add_upright_text(Markup& svg, const std::string& text, double x, double y,
                      const std::string& its_class) {
  const auto at = coordinate(x) + " " + coordinate(y);
  svg.element("text",
              {{"x", coordinate(x)},
               {"y", coordinate(y)},
               {"class", its_class},
               {"transform", "rotate(-90 " + at + ")"}},
              text);
}

void add_line(Markup& svg, double x1, double y1, double x2, double y2, const char* its_class) {
  svg.empty("line", {{"class", its_class},
                     {"x1", coordinate(x1)},
                     {"y1", coordinate(y1)},
                     {"x2", coordinate(x2)},
                     {"y2", coordinate(y2)}});
}

void add_box(Markup& svg, double x, double y, double wide, double high,
             const std::string& its_class) {
  svg.empty("rect", {{"class", its_class},
                     {"x", coordinate(x)},
                     {"y", coordinate(y)},
                     {"width", coordinate(wide)},
                     {"height", coordinate(high)}});
}

}  // namespace lockstep::reports
