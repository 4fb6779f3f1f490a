// The launched tier: worlds whose ranks are spread over processes that a launcher has started,
// on one host or many. No torch.
//
// Each of these processes forks a server first thing, as for the cold tier. Then they rendezvous
// (remotes.h). Rank 0's process has the lane, and sends every server the request for its rank; the
// others forward requests and replies (agent.h).
#pragma once

#include "harness/process/zygote.h"
#include "harness/world/launched/remotes.h"
#include "harness/world/tiers.h"

#include <functional>
#include <memory>

namespace lockstep {

// Forks the server of this process. Call it first thing, as forked_lanes.
std::unique_ptr<Zygote> launched_server(const SingleThreaded& alone,
                                        const std::vector<Scenario>& scenarios,
                                        const Subjects& subjects,
                                        const ForkedOptions& options = {});

// What rank 0's process knows of the campaign's processes.
struct LaunchedParts {
  std::unique_ptr<Zygote> server;
  Handshake own;
  std::vector<RemoteProcess> members;  // ranks 1 and up
  // Called when a launched process received a request to end, from the thread that runs cases.
  std::function<void()> on_interrupt;
  std::chrono::milliseconds grace{1000};  // as in ForkedOptions
};

// Runs launched worlds of up to all ranks, on ranks 0 to W - 1 of those launched; a case that wants
// more is refused, with this reason. Every rank is forked for one case, and its groups are Gloo's
// between the processes' hosts. A process that dies, or cannot be reached for kSilenceMost, is
// TierLost: no other process can replace its rank.
class LaunchedTier : public Tier {
 public:
  // Sends all processes the end of the campaign, and blocks until they have left, a few seconds at
  // most. Without it the destructor reports to them that the campaign did not complete.
  virtual void end(const CampaignEnd& how) = 0;
};
std::unique_ptr<LaunchedTier> launched_tier(LaunchedParts parts);

}  // namespace lockstep
