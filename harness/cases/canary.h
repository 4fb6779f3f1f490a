// The scenario that must fail: its ranks record nothing, so a judge that lets it pass would let
// anything pass. Part of every full run.
#pragma once

#include "harness/cases/scenario.h"

namespace lockstep {

Scenario canary();

}  // namespace lockstep
