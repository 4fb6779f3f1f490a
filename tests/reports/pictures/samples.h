// Small pictures of each kind, for tests of what draws them.
#pragma once

#include "reports/pictures/picture.h"

namespace lockstep::reports {

// Two groups of columns, a repeated cell and a reference.
Picture sample_grid();
Picture sample_bars();
Picture sample_lines();
// A rank that computes, waits, and communicates meanwhile.
Picture sample_lanes();

}  // namespace lockstep::reports
