// What a launched process other than rank 0's does in a campaign: it stands between rank 0 and its
// own server.
#pragma once

#include "harness/process/zygote.h"
#include "harness/world/launched/members.h"

#include <atomic>

namespace lockstep {

// Passes on what the two say, until rank 0 says how the campaign ended, or is gone, which is an end
// without a report. When `interrupted` turns true it asks rank 0 to end the campaign, and goes
// itself if that takes more than ten seconds. Blocks. The server ends with its Zygote.
CampaignEnd serve_rank_zero(const Descriptor& rank_zero, const Zygote& server,
                            const std::atomic<bool>& interrupted);

}  // namespace lockstep
