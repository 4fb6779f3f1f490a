// What `run` and `replay` have in common: from jobs to an exit status.
#pragma once

#include "cli/known.h"
#include "cli/live.h"
#include "harness/engine/campaign.h"

namespace lockstep::cli {

struct CommandOptions {
  CampaignOptions campaign;
  std::optional<uint64_t> seed;  // that the cases were drawn from
  std::filesystem::path out = ".lockstep";
  std::filesystem::path junit, json;  // empty: not written
  std::string colour = "auto";
  Detail detail = Detail::normal;
  bool show_rows = false;
};

// Makes the lanes, plays, prints, and leaves the archive. The jobs' cases are drawn already:
// nothing before this has made a thread or called LibTorch.
int play(const Known& known, std::vector<Job> jobs, std::vector<Job> canaries,
         const CommandOptions& options);

// Rank slots for this machine. A rank of a small case mostly waits for others, so there are more
// slots than cores.
int default_slots();

}  // namespace lockstep::cli
