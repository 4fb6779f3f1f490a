// The parts that several scenarios need of the options with which a case wraps its model.
#pragma once

#include "harness/worlds/options.h"

#include <string>

namespace lockstep::scenarios {

// A precondition: each rank builds its model with values of its own.
inline std::string why_ranks_begin_apart(const WrapOptions& options) {
  return options.init_sync ? "" : "the ranks' models differ at the start, so they need init_sync";
}

}  // namespace lockstep::scenarios
