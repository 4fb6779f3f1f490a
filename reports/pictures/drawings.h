// The bodies of pictures as SVG, each laid out for the room that a page has.
#pragma once

#include "reports/pictures/shapes.h"

namespace lockstep::reports {

// None is wider than `room`, in pixels, unless a single cell or label is.
Drawing drawn(const Grid& grid, double room);
Drawing drawn(const Bars& bars, double room);
Drawing drawn(const Lines& lines, double room);
Drawing drawn(const Lanes& lanes, double room);

}  // namespace lockstep::reports
