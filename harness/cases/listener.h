// The only output of a campaign while it runs: four callbacks. The archive is one listener, the
// live terminal another.
#pragma once

#include "harness/cases/result.h"

namespace lockstep {

// One run of one case. Refers to values that live only as long as the callback it is passed to.
struct Turn {
  const Case& c;
  const Setting& setting;
  int number = 1, of = 1;  // the case's place among its scenario's cases
  int run = 1;             // above 1: run again, to see whether the verdict is the same
  bool is_trial = false;   // a smaller or similar case is tried, to shrink this one
};

// Called from several threads, one at a time. An exception of a callback ends the run.
class Listener {
 public:
  virtual ~Listener() = default;

  // Before the case runs: what is written here survives whatever the case does.
  virtual void on_case(const Turn& turn) = 0;

  // `history` is empty where the tier broke and the verdict is inconclusive.
  virtual void on_verdict(const Turn& turn, const History& history, const Verdict& verdict) = 0;

  // After the verdict, where the output of every case is kept and its ranks wrote something: a
  // folder with rank0.out, rank0.err, ...
  virtual void on_output(const Turn& /*turn*/, const std::filesystem::path& /*folder*/) {}

  // Once for each scenario and setting, in the order of the jobs.
  virtual void on_result(const Result& result) = 0;

  // Many times a second, whatever else happens.
  virtual void on_wait() {}
};

}  // namespace lockstep
