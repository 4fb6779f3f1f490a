// What computing and communicating cost on this machine, as the prices of a simulated world's
// virtual time.
#pragma once

#include "harness/core/scenario.h"

namespace lockstep {

struct Calibration {
  Timing timing;
  // By how much the worst of the times is off that the prices were fitted to; 0.1: a tenth.
  double computing_off_by = 0, communicating_off_by = 0;
};

// Times operations on tensors, and all-reduces over Gloo in a cold world of `ranks`, two or more;
// fits prices with the least squares of relative errors. Call it while this program has one thread,
// as for lanes. Throws TierError where that world does not end well.
Calibration calibrate(int ranks);

// The part of it that computes: from what the ranks of such a world recorded.
Calibration calibrated(const History& history);

}  // namespace lockstep
