// The costs of computing and communicating on this machine, as the prices of a simulated world's
// virtual time.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/process/single_threaded.h"

namespace lockstep {

struct Calibration {
  Timing timing;
  // The largest relative error of the fitted prices; 0.1: a tenth.
  double computing_off_by = 0, communicating_off_by = 0;
};

// Times operations on tensors, and all-reduces over Gloo in a cold world of `ranks`, two or more;
// fits prices by least squares of relative errors. Throws TierError where that world does not end
// well.
Calibration calibrate(SingleThreaded alone, int ranks);

// The computing step of calibrate(): from what the ranks of such a world recorded.
Calibration calibrated(const History& history);

}  // namespace lockstep
