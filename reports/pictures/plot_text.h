// Bars and lines as characters, and the colour of a rank.
#pragma once

#include "reports/pictures/picture.h"
#include "reports/style.h"

namespace lockstep::reports {

// `text` in the colour of the label's rank.
std::string coloured_as(const std::string& text, const Label& label, const Style& style);

std::string bars_text(const Bars& bars, const Style& style);
std::string lines_text(const Lines& lines, const Style& style);

}  // namespace lockstep::reports
