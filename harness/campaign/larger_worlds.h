// A pattern of the world's size may fit a smallest case by chance: in a world of two, half of a
// value is also the value over the world's size. Larger worlds decide.
#pragma once

#include "harness/verdict/verdict.h"

namespace lockstep {

// True of a value times the world's size, or over it.
bool may_fit_one_size_by_chance(const Finding& finding);

// If a world of `ranks` breaks the same rule by another pattern, takes the finding's pattern back
// and adds to its diagnosis what that world shows. Returns whether it does.
bool contradict(Finding& finding, const Verdict& there, int ranks);

}  // namespace lockstep
