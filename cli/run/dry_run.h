// A run that runs nothing: a line for each scenario in each setting, with its number of cases and
// the expected time, as far as earlier runs below `out` give it; and the effect of the options for
// time and repetition.
#pragma once

#include "harness/campaign/campaign.h"

namespace lockstep::cli {

// A scenario that no earlier run judged in that setting is estimated by the cases of the others of
// its tier; where there are none, the time is unknown. Ends with a newline.
std::string dry_run_text(const std::vector<Job>& jobs, const CampaignOptions& options,
                         const std::filesystem::path& out);

}  // namespace lockstep::cli
