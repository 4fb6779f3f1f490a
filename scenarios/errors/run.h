// The program of an Erring case, which every scenario of this family runs.
#pragma once

#include "harness/rank/rank_context.h"
#include "scenarios/errors/case.h"

namespace lockstep::scenarios::errors {

// The phase after each step. It has "error", the sentence with which the step ended on this rank,
// without the times in it, "late", whether it waited ten seconds for it, "flag is late", whether
// the pass could end before the rank knew of its peers' errors, and for each parameter its
// gradient: float64, without elements where there is none.
inline constexpr const char *kAfter = "after", *kError = "error", *kLate = "late",
                            *kFlagIsLate = "flag is late", *kErrorInLog = "error in the log",
                            *kHasLog = "has a log";

// And after an error that ended the training "attempt 0", ..., the sentences of later calls.
std::string name_of_attempt(size_t number);

void run(const Erring& c, RankContext& here);

}  // namespace lockstep::scenarios::errors
