// What programs ask of the device on which a rank computes.
#pragma once

#include "harness/recorder/rank_context.h"

#include <string>

namespace lockstep::scenarios {

// The name of the backend that carries this rank's tensors: "gloo", "accelerator", ...
std::string backend_name(RankContext& here);

// Throws Unsupported on a device over a backend that the host does not wait for. There `what`, such
// as "a forward that throws", ends the instance: docs/semantics.md 2.8.
void refuse_where_the_host_does_not_wait(RankContext& here, const std::string& what);

}  // namespace lockstep::scenarios
