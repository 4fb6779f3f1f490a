// The only way out of the engine while it works: four callbacks. The archive is one listener, the
// live terminal another.
#pragma once

#include "harness/core/result.h"

namespace lockstep {

// One play of one case. Refers to values that outlive the callback it is passed to, no longer.
struct Turn {
  const Case& c;
  const Setting& setting;
  int number = 1, of = 1;  // the case's place among its scenario's cases
  int play = 1;            // above 1: played again, to see whether the verdict is the same
};

// Called from several threads, one at a time. What a callback throws ends the run.
class Listener {
 public:
  virtual ~Listener() = default;

  // Before the case runs: what is written here survives whatever the case does.
  virtual void on_case(const Turn& turn) = 0;

  // `history` is empty where the tier broke and the verdict is inconclusive.
  virtual void on_verdict(const Turn& turn, const History& history, const Verdict& verdict) = 0;

  // Once a scenario and setting, in the order of the plan.
  virtual void on_result(const Result& result) = 0;

  // Every now and then, many times a second, whatever else happens.
  virtual void on_wait() {}
};

}  // namespace lockstep
