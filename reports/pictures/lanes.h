// Lanes of time as each renderer needs them; every function beside those for the other pictures.
#pragma once

#include "reports/pictures/picture.h"
#include "reports/pictures/shapes.h"
#include "reports/style.h"

namespace lockstep::reports {

size_t marks_in(const Lanes& lanes);
std::vector<Mark> marks_of(const Lanes& lanes);
std::string fault_of(const Lanes& lanes);
DataTable table_of(const Lanes& lanes);

// A line of text for each lane, its spans as runs of one character.
std::string body_text(const Lanes& lanes, const Style& style);

Drawing drawn(const Lanes& lanes);

}  // namespace lockstep::reports
