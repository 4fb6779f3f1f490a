#pragma once

#include "harness/campaign/shrink_failure.h"
#include "harness/campaign/tally.h"

namespace lockstep {

struct CampaignOptions {
  // For each run of a case. A hang costs it twice, since a failing case runs again.
  std::chrono::milliseconds time_limit{std::chrono::seconds(30)};

  // Ranks alive at once over all lanes; at least 1. A larger world runs alone.
  int slots = 1;

  // `stop_all`: once `failures_most` jobs have failed no further case starts; jobs without a result
  // then are not_finished. `keep_going`: every case of every job runs.
  AfterFailure after_failure = AfterFailure::go_on;
  int failures_most = 1;

  // From the beginning of the campaign. Afterwards no case starts, but those that run again or are
  // candidates; jobs that have run no case until then are not_finished.
  std::optional<std::chrono::milliseconds> time = {};

  // Once all cases have run, jobs that hold are asked for more, until the time is over or a failure
  // stops all.
  bool draws_on = false;

  // How often a case runs that passes each time.
  int repeat = 1;

  // The clock for the duration of results.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;

  // The file of a replayed case, and what that was before it was shrunk. Where empty, failing cases
  // are saved to files of their own.
  std::filesystem::path case_file;
  std::optional<Origin> case_origin = {};

  // The listener gets what the ranks of each case wrote, whatever its verdict.
  bool keeps_output = false;

  // The program of a case's ranks in plain words, or nothing.
  std::function<std::string(const Case&)> in_words = [](const Case&) { return ""; };

  // None: failing cases stay as they were found.
  std::optional<ShrinkOptions> shrink = {};
};

}  // namespace lockstep
