// A picture as SVG inside a page, whose style sheet (page.h) has its colours.
#pragma once

#include "reports/pictures/picture.h"

namespace lockstep::reports {

// One <svg> with a title and a description for readers that do not see it. `number` tells the
// pictures of a page apart. Throws as check() does.
std::string svg_of(const Picture& picture, int number);

}  // namespace lockstep::reports
