// Errors that end the run of a case without a verdict.
#pragma once

#include <stdexcept>

namespace lockstep {

// The tier itself broke (its processes were killed from outside, the machine is out of memory):
// says nothing about the case.
struct TierError : std::runtime_error {
  using runtime_error::runtime_error;
};

// As above, for good: this tier runs nothing more.
struct TierLost : TierError {
  using TierError::TierError;
};

// stop() ended the case.
struct Interrupted : std::runtime_error {
  Interrupted() : runtime_error("interrupted") {}
};

}  // namespace lockstep
