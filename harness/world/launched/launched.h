// The launched tier: worlds whose ranks are spread over processes that a launcher has started,
// on one host or many. No torch.
//
// Each of these processes forks a server first thing, as for the cold tier. Then they come together
// (members.h). Rank 0's has the lane, and asks every server for the rank of its number; the others
// pass on what is asked and answered (agent.h).
#pragma once

#include "harness/process/zygote.h"
#include "harness/world/launched/members.h"
#include "harness/world/tiers.h"

#include <functional>
#include <memory>

namespace lockstep {

// Forks the server of this process. Call it first thing, as forked_lanes.
std::unique_ptr<Zygote> launched_server(const std::vector<Scenario>& scenarios,
                                        const Subjects& subjects,
                                        const ForkedOptions& options = {});

// All that rank 0's process has of the campaign's.
struct LaunchedParts {
  std::unique_ptr<Zygote> server;
  Hello own;
  std::vector<Member> members;  // ranks 1 and up
  // Called when a member was told to end, from the thread that plays.
  std::function<void()> on_interrupt;
  std::chrono::milliseconds grace{1000};  // as in ForkedOptions
};

// Plays launched worlds of up to all ranks, on ranks 0 to W - 1 of those launched; a case that
// wants more is refused, with this reason. Every rank is forked for one case, and its groups are
// Gloo's between the members' hosts. A member that dies, or cannot be reached for kSilenceMost, is
// TierLost: its rank can be replaced by nobody.
class LaunchedTier : public Tier {
 public:
  // Tells all members how the campaign ended, and blocks until they have left, a few seconds at
  // most. Without it they are told, when this goes, that it did not come to its end.
  virtual void end(const CampaignEnd& how) = 0;
};
std::unique_ptr<LaunchedTier> launched_tier(LaunchedParts parts);

}  // namespace lockstep
