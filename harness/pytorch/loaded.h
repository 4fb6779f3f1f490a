// The plugin that load() has loaded, for the subject.
#pragma once

#include "harness/pytorch/plugin/plugin.h"

namespace lockstep::pytorch {

// Throws std::logic_error before load().
const Plugin& loaded();

}  // namespace lockstep::pytorch
