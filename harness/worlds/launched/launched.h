// The start of a launched process of a campaign. No torch.
//
// Each of these processes forks a server first thing, as for the cold tier. Then they rendezvous
// (remotes.h). Rank 0's process has the tier (launched_tier.h), and sends every server the request
// for its rank; the others forward requests and replies (agent.h).
#pragma once

#include "harness/process/zygote.h"
#include "harness/worlds/launched/remotes.h"
#include "harness/worlds/tiers.h"

#include <functional>
#include <memory>

namespace lockstep {

// Forks the server of this process. Call it first thing, as forked_lanes.
std::unique_ptr<Zygote> launched_server(const SingleThreaded& alone,
                                        const std::vector<Scenario>& scenarios,
                                        const Subjects& subjects,
                                        const ForkedOptions& options = {});

// The campaign's processes, as rank 0's process knows them.
struct LaunchedParts {
  std::unique_ptr<Zygote> server;
  Handshake own;
  std::vector<RemoteProcess> members;  // ranks 1 and up
  // Called when a launched process received a request to end, from the thread that runs cases.
  std::function<void()> on_interrupt;
  std::chrono::milliseconds grace{1000};  // as in ForkedOptions
};

}  // namespace lockstep
