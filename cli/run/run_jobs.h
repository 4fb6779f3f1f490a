// The jobs of a run, made of its flags: which scenarios, where, and on which cases.
#pragma once

#include "cli/known.h"
#include "cli/run/launched.h"
#include "cli/run/selection.h"
#include "harness/campaign/canary.h"
#include "harness/cases/draw.h"

namespace lockstep::cli {

// Decides which cases run, and where; words as typed.
struct JobFlags {
  Selection selection;
  std::string tiers, backends = "gloo", subjects, out = ".lockstep";
  DrawOptions draw;  // its cases, worlds and `set`
  std::optional<uint64_t> seed;
  std::optional<RunShard> shard;
  std::optional<std::chrono::milliseconds> time;
  bool thorough = false, failed = false, until_fail = false, quiet = false;
};

// FIELD=VALUE of --set, and the sizes of --world, separated by commas. Throw UsageError.
std::pair<std::string, std::string> assignment_of(const std::string& text);
std::vector<int> worlds_of(const std::string& flag, const std::string& text);

inline constexpr int kCasesMost = 1'000'000;

// The tiers of --tier, --thorough or neither, separated by commas. Throws UsageError.
std::string tiers_of(const JobFlags& flags);

// With a seed, which is random where none is given. Throws UsageError for flags that exclude each
// other.
DrawOptions draw_options_of(const JobFlags& flags);

// True of a run that draws more cases until its time is over or one fails.
inline bool draws_on(const JobFlags& flags) {
  return flags.until_fail || flags.time;
}

// Draws the cases. Throws UsageError and NothingSelected.
std::vector<Job> jobs_of(const JobFlags& flags, const Known& known, const DrawOptions& draw);

// A launched world has a fixed size: the canary of any world runs at this one, those of the
// scenarios if they fit, and the simulated ones not at all.
std::vector<Canary> canaries_of(const Known& known, const Setting& setting,
                                const std::optional<LaunchedPlace>& launched);

}  // namespace lockstep::cli
