// Shapes that tell ranks apart without colour, and the sizes that all pictures share.
#pragma once

#include "reports/pictures/markup.h"
#include "reports/pictures/picture.h"

namespace lockstep::reports {

inline constexpr double kLetter = 8.45, kLineHeight = 28;  // of text in pixels
inline constexpr double kMargin = 8, kShapeColumn = 22;

// A drawing, and how large it is.
struct Drawing {
  Markup marks;
  double wide = 0, high = 0;
};

// The width of a text; of the widest of some.
double pixels(const std::string& text);

// With at most two decimals.
std::string coordinate(double value);

// "rank2" or "reference", a class of the style sheet; "nobody" for the others.
std::string class_of(const Label& label);

// The class of a mark's box, after a blank: a hatch or a border, beside its sign in the text.
std::string class_of(Mark mark);

// The column of the shapes of some labels: 0 where all are nobody's.
double label_column(const std::vector<Label>& labels);

// A label that begins at `x`, its shape to the left of it.
void add_label(Markup& svg, const Label& label, double x, double y);
double widest(const std::vector<Label>& labels);

// The shape of the label's rank around a point: a circle, a square, a triangle, ...
void add_shape(Markup& svg, const Label& label, double x, double y);

// A text in lines, none wider than `room` but for a wider word.
std::vector<std::string> lines_within(const std::string& text, double room);

// Text whose baseline is right for a line of text centred at `y`; `anchor` is start, middle or end.
void add_text(Markup& svg, const std::string& text, double x, double y, const char* anchor,
              const std::string& its_class = "");

// Text that runs upwards from a point.
void add_upright_text(Markup& svg, const std::string& text, double x, double y,
                      const std::string& its_class);

void add_line(Markup& svg, double x1, double y1, double x2, double y2, const char* its_class);

void add_box(Markup& svg, double x, double y, double wide, double high,
             const std::string& its_class);

}  // namespace lockstep::reports
