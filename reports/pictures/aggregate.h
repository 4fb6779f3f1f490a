// Pictures of more than can be drawn.
#pragma once

#include "reports/pictures/picture.h"

namespace lockstep::reports {

// The picture itself where it has at most `most` marks; otherwise one in which neighbours are drawn
// as one: cells and bars with the worst mark among them, the bar of the largest value, the average
// of points, spans from the first begin to the last end. Its caption says how many are one.
Picture within_marks(Picture picture, size_t most = kMarksMost);

}  // namespace lockstep::reports
