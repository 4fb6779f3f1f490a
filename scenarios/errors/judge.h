// Checks of Erring cases, against follow().
#pragma once

#include "harness/history/history.h"
#include "harness/verdict/verdict.h"
#include "scenarios/errors/case.h"

namespace lockstep::scenarios::errors {

// No rank hangs, crashes, or lets an error escape.
Findings every_rank_returns(const Erring& c, const History& h);

// In each step every rank receives the error that docs/semantics.md says, and none where all is
// well.
Findings every_rank_receives_its_error(const Erring& c, const History& h);

// Ranks receive the same sentence, but for the one that threw and for errors of communication.
Findings ranks_receive_one_error(const Erring& c, const History& h);

// A replica's log names the error of its last pass that could not be averaged, and no other.
Findings the_log_has_the_error(const Erring& c, const History& h);

// After an error that ended the training each later call fails too, at once and alone, but for
// those that need no peer.
Findings later_calls_fail(const Erring& c, const History& h);

// Checks .grad after each step, whether it ended well or not.
Findings gradients_are_as_said(const Erring& c, const History& h);

}  // namespace lockstep::scenarios::errors
