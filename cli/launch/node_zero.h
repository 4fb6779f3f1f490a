// Node 0 of a launch, until all nodes have come.
#pragma once

#include "cli/launch/nodes.h"

namespace lockstep::cli {

// rendezvous_of_nodes() on node 0 of several.
Nodes rendezvous_at_node_zero(const NodePlace& place, int ranks, const Descriptor& signals);

}  // namespace lockstep::cli
