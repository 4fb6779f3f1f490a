// Invariants that fail because another one does.
#pragma once

#include "harness/invariants/invariants.h"

namespace lockstep::recorded {

struct NamedJudgement {
  std::string_view name, rule;
  Judgement judgement;
};

// Folds each failing invariant that follows from another one into it: its finding becomes a line of
// the cause's, and it is not judged, with the cause as its reason. One mistake makes one failure.
void fold_consequences(std::vector<NamedJudgement>& all);

}  // namespace lockstep::recorded
