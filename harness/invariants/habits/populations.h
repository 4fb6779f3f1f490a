// Ranks that train models of their own, of which good ones take the places of others.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// True for population-based training: each rank updates a model by its own gradients, and now and
// then another rank's whole model takes its place. The models that do so are those of two ranks at
// least: where all take one rank's, what others trained is lost. Ranks whose settings are alike
// from the first update must have begun unlike, and never all have one model: with two ranks
// nothing tells them from ranks that take turns at a broadcast in place of an average.
bool trains_a_population(const RecordedRun& run);

}  // namespace lockstep::recorded
