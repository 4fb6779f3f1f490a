// A picture on a terminal.
#pragma once

#include "reports/pictures/picture.h"
#include "reports/style.h"

namespace lockstep::reports {

// Its title, the picture, its key and its caption, each line ending with a newline. No line is
// wider than `style.columns`: a grid continues below. Throws as check() does.
std::string text_of(const Picture& picture, const Style& style);

}  // namespace lockstep::reports
