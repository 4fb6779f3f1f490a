// What `run` and `replay` have in common: from jobs to an exit status.
#pragma once

#include "cli/known.h"
#include "cli/launched.h"
#include "cli/live.h"
#include "harness/engine/campaign.h"

namespace lockstep::cli {

struct CommandOptions {
  CampaignOptions campaign;
  std::optional<uint64_t> seed;   // that the cases were drawn from
  std::optional<RunShard> shard;  // whose cases the jobs play
  std::filesystem::path out = ".lockstep";
  std::filesystem::path junit, json;  // empty: not written
  std::string colour = "auto";
  Detail detail = Detail::normal;
  bool show_rows = false;
  std::optional<LaunchedPlace> launched;  // of this process, where launched worlds are played
  std::chrono::milliseconds meet{std::chrono::minutes(5)};  // how long it waits for the others
};

// Which process this is, if `tiers` are launched worlds. Throws UsageError where nothing has
// launched it, and where other tiers are to be played as well.
std::optional<LaunchedPlace> place_for(const std::vector<std::string>& tiers);

// Makes the lanes, plays, prints, and leaves the archive. The jobs' cases are drawn already:
// nothing before this has made a thread or called LibTorch. Of launched processes all call it:
// rank 0's plays and reports; the others serve it, print nothing, and return 0 once rank 0 has a
// report, whatever it says: a launcher shall tell of the job's exit code once, not once a rank.
int play(const Known& known, std::vector<Job> jobs, std::vector<Job> canaries,
         const CommandOptions& options);

// What every command that tells of a run has in common: where reports go, and how text looks.
// Throw UsageError for what cannot be written; the first finds it out before there is anything to
// write.
void check_writable(const std::filesystem::path& path);
void write_report(const std::filesystem::path& path, const std::string& text);
reports::Style style_of_stdout(const std::string& colour);

// Rank slots for this machine. A rank of a small case mostly waits for others, so there are more
// slots than cores.
int default_slots();

}  // namespace lockstep::cli
