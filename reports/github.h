// What GitHub Actions shows of a run: annotations beside the job, and the step's summary.
// https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
#pragma once

#include "harness/core/result.h"

#include <string>

namespace lockstep::reports {

// GitHub shows ten of a step, and writes one itself when the step's exit status is not zero.
inline constexpr size_t kAnnotationsMost = 9;

// GitHub drops a summary of more than 1 MiB, whole.
inline constexpr size_t kSummaryBytesMost = (1 << 20) - 1;

// Workflow commands, a line each: an error for what failed, a warning for what could not be judged.
// Where there are more than `kAnnotationsMost` the last one counts the others.
std::string annotations(const Run& run);

// Markdown of at most `bytes_most`: every result in a line, then the story of each that is no pass,
// in code fences that nothing inside can close. Stories that do not fit are counted.
std::string step_summary(const Run& run, size_t bytes_most = kSummaryBytesMost);

}  // namespace lockstep::reports
