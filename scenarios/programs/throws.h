// The errors that ranks must throw in a ProgramSpec, with their words.
#pragma once

#include "harness/verdict/compare.h"
#include "scenarios/programs/expected/follow.h"

namespace lockstep::scenarios::programs {

// At the end of a join: the ranks of a group throw together, and only where the join says so; the
// sentence names the ranks that have no inputs left, and after how many forwards.
Findings ranks_are_stopped_alike(const History& h, const Action& finish,
                                 const FollowedModel& model);

// In a forward that is refused.
Findings unnoted_changes_are_refused(const History& h, const Action& forward,
                                     const FollowedModel& model);

}  // namespace lockstep::scenarios::programs
