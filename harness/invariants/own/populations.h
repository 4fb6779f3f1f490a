// Ranks that train models of their own, of which good ones take the places of others.
#pragma once

#include "harness/invariants/rows.h"

namespace lockstep::recorded {

// True for population-based training: each rank updates by its own gradients a model that began
// unlike the others', or with other settings, and now and then another rank's whole model takes its
// place. The models that do so are those of two ranks at least: where all take one rank's, or ranks
// that train alike take the best, what others trained is lost.
bool trains_a_population(const RecordedRun& run);

}  // namespace lockstep::recorded
