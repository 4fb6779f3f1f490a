// Lanes of time as characters, and their parts.
#pragma once

#include "reports/pictures/picture.h"
#include "reports/style.h"

namespace lockstep::reports {

// The spans of a lane in rows, so that those of one row do not overlap; in the order of their
// begin.
std::vector<std::vector<Lanes::Span>> rows_of(const Lanes::Lane& lane);

// Spans of a row that touch and have one text: [begin, end) of the row.
struct JoinedSpans {
  size_t begin, end;
};
std::vector<JoinedSpans> joined_spans(const std::vector<Lanes::Span>& row);

// Multiples of 1, 2 or 5 times a power of ten on the scale, at most `most` and the first.
std::vector<double> ticks_of(const Scale& scale, size_t most);
// Three significant digits are enough for an axis.
std::string tick_text(double time);

std::string lanes_text(const Lanes& lanes, const Style& style);

}  // namespace lockstep::reports
