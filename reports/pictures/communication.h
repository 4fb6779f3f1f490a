// Pictures of how the ranks of a history communicated, whatever the scenario. Each is nothing where
// the history has nothing of the kind.
#pragma once

#include "harness/history/history.h"
#include "reports/pictures/picture.h"

#include <optional>

namespace lockstep::reports {

// The ladder: which rank issued which collective of a group, around the place where the ranks
// diverge, or the first ones where they do not. A row a rank, below what most ranks issued.
std::optional<Picture> ladder_picture(const History& history);

// When each rank's collectives were under way, where their times are known.
std::optional<Picture> communication_picture(const History& history);

// The buckets of rank 0 with their gradients, in the order of launch, in each layout.
std::optional<Picture> bucket_picture(const History& history);

}  // namespace lockstep::reports
