// The layers of BatchNorm of the subject lockstep.
#pragma once

#include "harness/worlds/subject.h"

namespace lockstep {

NormLayers lockstep_norm_layers();

}  // namespace lockstep
