// Chooses the pictures of one case, by what its history and its finding have, whatever the
// scenario.
#pragma once

#include "harness/cases/result.h"
#include "reports/pictures/picture.h"

#include <vector>

namespace lockstep::reports {

inline constexpr size_t kPicturesOfACase = 3;  // at most

// The pictures of one failing signature: the ladder of collectives, the diverging values, then the
// explanation. `history` is null where none was kept: then the finding itself is all there is to
// show.
std::vector<Picture> pictures_of_failure(const Result& result, const History* history);

// The pictures of a case that passed: samples, buckets, values over time, what ranks hold,
// communication.
std::vector<Picture> pictures_of_pass(const History& history);

}  // namespace lockstep::reports
