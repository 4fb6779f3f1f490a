// The functions through which programs use the device on which a rank computes.
#pragma once

#include "harness/rank/rank_context.h"

#include <string>

namespace lockstep::scenarios {

// The name of the backend that carries this rank's tensors: "gloo", "accelerator", ...
std::string backend_name(RankContext& here);

// True if the host waits for collectives on this rank's tensors: on the CPU, and over Gloo.
bool host_waits(RankContext& here);

// Throws Unsupported where it does not. There `what`, such as "a forward that throws", ends the
// instance: docs/semantics.md 2.8.
void refuse_where_the_host_does_not_wait(RankContext& here, const std::string& what);

// Throws Unsupported on the simulated accelerator, whose host waits where a device would: there a
// host whose peers issue no more collectives cannot receive `what`, such as "a peer's error".
void refuse_where_the_simulation_waits(RankContext& here, const std::string& what);

}  // namespace lockstep::scenarios
