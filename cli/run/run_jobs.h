// The jobs of a run, made of its flags: which scenarios, where, and on which cases.
#pragma once

#include "cli/known.h"
#include "cli/run/launched.h"
#include "cli/run/selection.h"
#include "harness/campaign/tally.h"
#include "harness/cases/draw.h"

namespace lockstep::cli {

// As typed.
struct RunFlags {
  Selection selection;
  std::string tiers, backends = "gloo", subjects, worlds, seed, cases, shard, slots, timeout,
                     rendezvous_timeout, shrink_time, time, max_fail, repeat, slowest;
  std::vector<std::string> set;
  std::string junit, json, html, trace, out = ".lockstep", colour = "auto";
  bool thorough = false, failed = false, plan = false, until_fail = false, stop_at_first = false,
       keep_going = false, no_shrink = false, quiet = false;
  int verbose = 0;
};

// The tiers of --tier, --thorough or neither, separated by commas. Throws UsageError.
std::string tiers_of(const RunFlags& flags);

// The value of --shard, if it is given. Throws UsageError.
std::optional<RunShard> shard_option_of(const RunFlags& flags);

DrawOptions draw_options_of(const RunFlags& flags);

// True of a run that draws more cases until its time is over or one fails.
inline bool draws_on(const RunFlags& flags) {
  return flags.until_fail || !flags.time.empty();
}

// Draws the cases. Throws UsageError and NothingSelected.
std::vector<Job> jobs_of(const RunFlags& flags, const Known& known, const DrawOptions& draw);

// A launched world has a fixed size: the canary that fails at any size runs at this one, the others
// if they fit.
std::vector<Job> canaries_of(const Known& known, const Setting& setting,
                             const std::optional<LaunchedPlace>& launched);

}  // namespace lockstep::cli
