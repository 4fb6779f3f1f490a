// The work of a launched process other than rank 0's in a campaign: it connects rank 0 to its own
// server.
#pragma once

#include "harness/process/zygote.h"
#include "harness/worlds/launched/remotes.h"

#include <atomic>

namespace lockstep {

// Passes messages between the two until rank 0 says how the campaign ended, or is gone, which is an
// end without a report. When `interrupted` turns true it requests that rank 0 end the campaign, and
// returns if that takes more than ten seconds. Blocks. The server ends with its Zygote.
CampaignEnd serve_rank_zero(const Descriptor& rank_zero, const Zygote& server,
                            const std::atomic<bool>& interrupted);

}  // namespace lockstep
