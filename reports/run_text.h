// Short texts about a whole run that several reports share.
#pragma once

#include "harness/cases/result.h"

#include <string>
#include <vector>

namespace lockstep::reports {

// "failed", "all held", "interrupted".
std::string verdict_text(const Run& run);

// "45 scenarios, 90 results"; of a run in one setting that is one number.
std::string scenarios_text(const Run& run);

// "29 passed, 2 skipped (2: no GPU)".
enum class SkipReasons { named, left_out };
std::string counts_text(const Run& run, SkipReasons reasons = SkipReasons::named);

// "A canary did not come out as it must (agreement)": of a run whose canary passed.
std::string blind_text(const Run& run);

// How far the cases that were drawn covered what they should, a line each.
std::string statistics(const Run& run);

// Returns the remarks that a reader must know before the counts mean anything, a line each: a
// canary that passed, shards that are missing.
std::vector<std::string> remarks(const Run& run);

// The parts of a setting that differ within the run; always the tier.
std::string setting_text(const Setting& setting, const std::vector<Setting>& settings);

// The values of a member of the settings, in their order.
std::vector<std::string> distinct(const std::vector<Setting>& settings,
                                  std::string Setting::*member);

// "worlds 2-4"; empty where no case was judged.
std::string worlds_text(const Result& result);

// True of a result that has a story.
bool is_reported(const Result& result);

}  // namespace lockstep::reports
