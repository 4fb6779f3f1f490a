// Lanes of time, as characters and as SVG.
#pragma once

#include "reports/pictures/shapes.h"
#include "reports/style.h"

namespace lockstep::reports {

// The spans of a lane in rows, so that those of one row do not overlap; in the order of their
// begin.
std::vector<std::vector<Lanes::Span>> rows_of(const Lanes::Lane& lane);

std::string lanes_text(const Lanes& lanes, const Style& style);
Drawing drawn(const Lanes& lanes);

}  // namespace lockstep::reports
