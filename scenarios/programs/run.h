// A ProgramSpec on one rank.
#pragma once

#include "harness/rank/rank_context.h"
#include "scenarios/programs/case.h"

namespace lockstep::scenarios::programs {

// The phase in which a rank records its model after a step; after the last one, at the step behind
// it, all models.
inline constexpr const char* kAfter = "after";

// The records of a rank after a join and a refused forward: whether it threw, and the sentence.
inline constexpr const char *kThrew = "threw", *kSentence = "sentence";

// The name under which a rank records what model `model` calls `name`.
std::string name_in_records(int model, const std::string& name);

// Wraps the models and runs every step. Collective.
void run(const ProgramSpec& c, RankContext& here);

}  // namespace lockstep::scenarios::programs
