// The program's exit status. Scripts rely on these numbers; --help prints them.
#pragma once

#include "harness/cases/result.h"

#include <algorithm>

namespace lockstep::cli {

enum ExitCode : int {
  kHeld = 0,
  kFailed = 1,        // failed, hung, crashed, leaked or flaky; or the canary passed
  kUsage = 2,         // also a limit of this machine, or an unwritable folder where nothing failed
  kInconclusive = 3,  // something could not be judged, or not in time, and nothing failed
  kNothingSelected = 4,
  kInternal = 70,
  kAllSkipped = 77,
  kInterrupted = 130,
};

inline constexpr char kExitCodesHelp[] =
    "Exit codes:\n"
    "  0    all held\n"
    "  1    a property failed, hung, crashed, leaked or was flaky\n"
    "  2    usage or configuration, this machine's limits and folders that cannot be written "
    "included\n"
    "  3    something was inconclusive and nothing failed\n"
    "  4    nothing selected\n"
    "  70   internal error\n"
    "  77   everything was skipped\n"
    "  130  interrupted\n";

// Ignores `missing_shards`: the command decides what they mean.
inline ExitCode exit_code_of(const Run& run) {
  const auto any = [&](auto holds) {
    return std::any_of(run.results.begin(), run.results.end(), holds);
  };
  if (run.interrupted) return kInterrupted;
  if (run.canary == Run::Canary::passed) return kFailed;
  if (any([](const Result& result) { return is_failure(result.kind); })) return kFailed;
  if (run.canary == Run::Canary::inconclusive) return kInconclusive;
  if (any([](const Result& result) { return result.kind == Result::Kind::inconclusive; }))
    return kInconclusive;
  if (!run.not_finished.empty() && run.missing_shards.empty()) return kInconclusive;
  if (any([](const Result& result) { return result.kind == Result::Kind::pass; })) return kHeld;
  // A shard cannot know whether its whole campaign was skipped; the report of all shards does.
  return run.shard ? kHeld : kAllSkipped;
}

}  // namespace lockstep::cli
