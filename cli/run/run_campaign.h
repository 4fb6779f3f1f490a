// The common part of `run` and `replay`: from jobs to an exit status.
#pragma once

#include "cli/known.h"
#include "cli/output/report_files.h"
#include "cli/output/requested_history.h"
#include "cli/run/launched.h"
#include "cli/run/live.h"
#include "harness/campaign/campaign.h"
#include "harness/process/single_threaded.h"

namespace lockstep::cli {

struct CommandOptions {
  CampaignOptions campaign;
  std::optional<uint64_t> seed;   // that the cases were drawn from
  std::optional<RunShard> shard;  // whose cases the jobs run
  std::string out = ".lockstep";
  ReportFiles files = {};
  std::string command;  // runs the same again, but for a seed
  HistoryFiles history = {};
  std::string colour = "auto";
  Detail detail = Detail::normal;
  bool show_rows = false;
  size_t slowest = 0;                     // cases that the summary lists
  bool shows_statistics = false;          // of the kinds of cases that were drawn
  std::function<void(Run&)> at_end;       // with the whole run, whose exit code it may change
  std::optional<LaunchedPlace> launched;  // of this process, where launched worlds are run
  std::chrono::milliseconds rendezvous_timeout{std::chrono::minutes(5)};
};

// This process's place in the launched world, if one of `tiers`, which exist, is launched. Throws
// UsageError where no launcher has started it, or where there are other tiers too.
std::optional<LaunchedPlace> place_for(const std::vector<std::string>& tiers);

// Makes the lanes, runs the cases, prints, and writes the archive. The jobs' cases have been drawn;
// LibTorch was not called before. All launched processes call it: rank 0
// runs and reports; the others serve it, print nothing, and return 0 once rank 0 has a report,
// whatever it says, so that a launcher reports the job's exit code once, not once per rank.
int run_campaign(const Known& known, SingleThreaded alone, std::vector<Job> jobs,
                 std::vector<Canary> canaries, const CommandOptions& options);

// How often a case can be asked to run, with --repeat or --until-fail.
inline constexpr int kRepeatMost = 1'000'000;

// Rank slots for this machine. A rank of a small case mostly waits for its peers, so there are more
// slots than cores.
int default_slots();

}  // namespace lockstep::cli
