// A picture as SVG inside a page, whose style sheet (page_parts.h) has its colours.
#pragma once

#include "reports/pictures/picture.h"

namespace lockstep::reports {

inline constexpr double kRoomOfPages = 660;  // in pixels: of a tablet, a window, a sheet of paper

// One <svg> with a title and a description for readers that do not see it, laid out to be no wider
// than `room`. `number` tells the pictures of a page apart. Throws as check() does.
std::string svg_of(const Picture& picture, int number, double room = kRoomOfPages);

}  // namespace lockstep::reports
