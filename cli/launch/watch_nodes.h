// Waits for the ranks of a launch, on this node and on the others.
#pragma once

#include "cli/launch/nodes.h"
#include "harness/process/zygote.h"

namespace lockstep::cli {

// Starts the ranks of this node, by a request to the server that runs run_program_ranks(), and
// blocks until all ranks of all nodes have ended. Collective. Where a rank fails, a node is gone or
// one receives a signal, the ranks of all nodes are ended. Returns how the launch ended, the same
// on all nodes: by the rank that failed first, as the hosts' clocks say. Where node 0 is gone, the
// others say so. Throws TierError if the server fails.
ProgramEnd watch_nodes(const Zygote& server, const Descriptor& signals, const Nodes& nodes);

}  // namespace lockstep::cli
